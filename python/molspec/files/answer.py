"""A query as a file has it, its answer, and what all answers of a file have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from molspec.task import Task

if TYPE_CHECKING:
    from molspec.results import Prediction, Result


@dataclass(frozen=True)
class Query:
    """A query of a file."""

    smiles: str
    #: Its identifier there, "" where it has none.
    name: str = ""
    #: Why the file's record is no SMILES, where it is none.
    error: str | None = None
    #: What the model is to score, where it is not to predict.
    target: str = ""
    #: Cells of its row that are copied to the output.
    columns: tuple[str, ...] = ()


class Answered(Protocol):
    """What a file of results holds: one for each query."""

    @property
    def query(self) -> Query:
        """The query as the file has it."""

    @property
    def error(self) -> str | None:
        """Why there is no result, where there is none."""

    @property
    def is_refused(self) -> bool:
        """Whether the query was refused."""


AnswerT = TypeVar("AnswerT", bound=Answered)


@dataclass(frozen=True)
class Answer:
    """The answer to a file's query."""

    #: Place of the query in its file, from 1.
    number: int
    query: Query
    result: Result
    #: The SMILES that was decoded in place of the query, and why; "" for the query itself.
    note: str = ""

    @property
    def identifier(self) -> str:
        """The query's name; its number where it has none."""
        return self.query.name or str(self.number)

    @property
    def error(self) -> str | None:
        """Why there is no answer, where there is none."""
        return self.result.error

    @property
    def is_refused(self) -> bool:
        """Whether the query was refused before any call of the decoder."""
        return self.error is not None and self.result.statistics.decoder_calls == 0


@dataclass(frozen=True)
class OutputContext:
    """Which model answers are of, and how they are spelt.

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
