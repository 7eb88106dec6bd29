"""A campaign's table: rows that answer the same queries in turns, columns of what that took."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeVar

from molspec import Model
from molspec.common.task import Task
from molspec.evaluation import Pair, PairTable, Summary
from molspec.evaluation.record import Record
from molspec.prediction.options import PredictOptions
from molspec.text import smiles

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """A model and how it decodes."""

    name: str
    model: Model
    options: PredictOptions


@dataclass(frozen=True)
class Measured:
    """The records of a row. The seconds of the first `timed` are those of the median round."""

    row: Row
    records: Sequence[Record]
    timed: int

    @cached_property
    def summary(self) -> Summary:
        """Accuracy and counts of all records."""
        summary = Summary(self.row.options.n_best)
        for record in self.records:
            summary.add(record)
        return summary

    @property
    def milliseconds(self) -> float:
        """Of a query, on average."""
        return 1e3 * sum(record.seconds for record in self.records[: self.timed]) / self.timed

    def cost(self, name: str) -> float:
        """A mean or rate of `Summary.costs`; 0 if nothing was drafted."""
        return self.summary.costs()[name] or 0.0


#: A cell of a row, given the first row too.
Column = Callable[[Measured, Measured], str]

TIMES: dict[str, Column] = {
    "ms a query": lambda one, _: f"{one.milliseconds:.1f}",
    "speed-up": lambda one, first: f"{first.milliseconds / one.milliseconds:.2f}x",
}


def cost(name: str, form: str) -> Column:
    """A column of `Summary.costs`."""
    return lambda one, _: format(one.cost(name), form)


def pairs_of(path: Path, task: Task | None, limit: int | None) -> list[Pair]:
    """The first rows of a table."""
    return list(islice(PairTable(path, task=task), limit))


def measured(
    rows: Sequence[Row], pairs: Sequence[Pair], rounds: int = 1, timed: int | None = None
) -> list[Measured]:
    """Answer all pairs once, and the first `timed` (all if not given) in so many rounds."""
    timed = len(pairs) if timed is None else min(timed, len(pairs))
    for row in rows:
        row.model.predict([pairs[0].query])  # makes what is made once
    taken: list[list[list[float]]] = [[[] for _ in pairs] for _ in rows]
    records: list[list[Record]] = []
    for turn in range(rounds):
        part = pairs[:timed] if turn else pairs
        queries = [pair.query for pair in part]
        found = in_turns([row.model.predict_stream(queries, row.options) for row in rows])
        for seconds, results in zip(taken, found, strict=True):
            for index, (_, elapsed) in enumerate(results):
                seconds[index].append(elapsed)
        if not turn:
            records = [
                [Record.of(pair, *each) for pair, each in zip(pairs, results, strict=True)]
                for results in found
            ]
    return [
        Measured(row, [replace(r, seconds=median(s)) for r, s in zip(*both, strict=True)], timed)
        for row, *both in zip(rows, records, taken, strict=True)
    ]


def in_turns(streams: Sequence[Iterator[T]]) -> list[list[tuple[T, float]]]:
    """Take an item of each stream, again and again; all items with their seconds, by stream.

    The stream that begins changes, so that a disturbance of the machine affects all of them.
    """
    taken: list[list[tuple[T, float]]] = [[] for _ in streams]
    turn = 0
    while True:
        for offset in range(len(streams)):
            place = (turn + offset) % len(streams)
            smiles._written.cache_clear()  # queries are new to a user's program
            began = perf_counter()
            try:
                item = next(streams[place])
            except StopIteration:
                return taken
            taken[place].append((item, perf_counter() - began))
        turn += 1


def table(heading: str, rows: Sequence[Measured], columns: Mapping[str, Column]) -> Iterator[str]:
    """Lines of Markdown: a line for each row."""
    cells = ([one.row.name, *(column(one, rows[0]) for column in columns.values())] for one in rows)
    return markdown([heading, *columns], cells)


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a table with the columns `heads`; all but the first are numbers."""
    yield f"| {' | '.join(heads)} |"
    yield "|---|" + "---:|" * (len(heads) - 1)
    for row in rows:
        yield f"| {' | '.join(row)} |"
