"""The record of each query of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from molspec.decoding import QueryStatistics
from molspec.evaluation.pairs import Pair
from molspec.prediction.results import Prediction, Result
from molspec.text import canonicalise


@dataclass(frozen=True)
class Record:
    """A query with its target and its answers, best first.

    Answer and target are equal if their canonical SMILES are: of all molecules together, in RDKit's
    order, without atom maps.
    """

    query: str
    target: str
    #: Its cell in the column of groups, "" if there is none.
    group: str
    #: None if the target is not a molecule to RDKit.
    target_canonical: str | None
    predictions: tuple[Prediction, ...]
    #: Why there are no predictions, otherwise None.
    error: str | None
    statistics: QueryStatistics
    #: Wall time that the evaluation waited for this result; their sum is the total.
    seconds: float

    @classmethod
    def of(cls, pair: Pair, result: Result, seconds: float) -> Record:
        """Judge a result."""
        return cls(
            pair.query,
            pair.target,
            pair.group,
            canonicalise(pair.target.strip(".")),
            result.predictions,
            result.error,
            result.statistics,
            seconds,
        )

    @property
    def pair(self) -> Pair:
        """The row of the table."""
        return Pair(self.query, self.target, self.group)

    @property
    def found_at(self) -> int | None:
        """The best rank, from 0, of an answer that equals the target; None if there is none."""
        ranks = (
            rank
            for rank, answer in enumerate(self.predictions)
            if answer.canonical is not None and answer.canonical == self.target_canonical
        )
        return next(ranks, None)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Record:
        """Read what `to_json` wrote. Raises TypeError or KeyError if it is something else."""
        return cls(
            **{
                **{name: value for name, value in values.items() if name != "rank"},
                "predictions": tuple(map(Prediction.from_json, values["predictions"])),
                "statistics": QueryStatistics(**values["statistics"]),
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Every field, and the target's rank from 1, null without one, as JSON values."""
        rank = None if self.found_at is None else self.found_at + 1
        predictions = [each.told(recorded=True) for each in self.predictions]
        parts = {"predictions": predictions, "statistics": asdict(self.statistics)}
        return {**vars(self), "rank": rank, **parts}
