"""What all answers of a file have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from molspec.task import Task

if TYPE_CHECKING:
    from molspec.results import Prediction


@dataclass(frozen=True)
class OutputContext:
    """Which model they are of, and how they are spelt.

    as_written: answers stand as the model wrote them, otherwise as canonical SMILES. Forms for
        programs have both.
    about: how they were decoded, for people.
    further_columns: what a table has beside its usual columns: "count" where equal samples are one,
        "inclusion" where all differ, "tolerated" of relaxed verification.
    copied_columns: names of `Query.columns`.
    raw_cells: cells of tables stand as they are, also those that a spreadsheet would run.
    """

    model: str
    task: Task | None = None
    as_written: bool = False
    about: str = ""
    further_columns: tuple[str, ...] = ()
    copied_columns: tuple[str, ...] = ()
    raw_cells: bool = False

    def shown(self, prediction: Prediction) -> str | None:
        """The answer as it is spelt here; None for no molecule, unless `as_written`."""
        if self.as_written and prediction.finished:
            return prediction.smiles
        return prediction.canonical
