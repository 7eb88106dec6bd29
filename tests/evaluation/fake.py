"""A model that answers from a list, and tables for it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from molspec.decoding import QueryStatistics
from molspec.prediction.results import Prediction, Result

#: Number of queries that the model reads before its first answer, as for a batch.
READ_AHEAD = 3


@dataclass
class FakeModel:
    """Answers from `answers`; other queries fail."""

    answers: Mapping[str, tuple[Prediction, ...]]
    received: list[str] = field(default_factory=list)

    def predict_stream(
        self, queries: Iterable[str], options: Any, processes: Any = 1
    ) -> Iterator[Result]:
        del processes
        return self._stream(iter(queries))

    def _stream(self, queries: Iterator[str]) -> Iterator[Result]:
        while batch := list(islice(queries, READ_AHEAD)):
            self.received += batch
            for query in batch:
                yield self._answer(query)

    def _answer(self, query: str) -> Result:
        if query not in self.answers:
            return Result(query, error="not in the list")
        count = len(query)
        statistics = QueryStatistics(count, 4 * count, 3 * count, 2 * count, count, 0.25)
        return Result(query, self.answers[query], statistics=statistics)


def predictions(*smiles: str) -> tuple[Prediction, ...]:
    """Finished answers, but unfinished ones for texts with the prefix "~"."""
    return tuple(
        Prediction(text.lstrip("~"), -0.1 - rank / 3, finished=not text.startswith("~"))
        for rank, text in enumerate(smiles)
    )


def write_table(path: Path, rows: Iterable[tuple[str, str]]) -> Path:
    """A plain table with the columns query and target."""
    path.write_text("query\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in rows))
    return path
