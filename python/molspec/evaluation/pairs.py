"""Tables of queries and targets, read row by row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from molspec.common.tables import NAME_COLUMNS, check_rereadable, read_cells
from molspec.common.task import COLUMNS, Task
from molspec.text.reactions import Column, NumberedRow, read_table

#: If no column is named, the first of these in the table: queries, targets.
_COLUMNS = (("src", "query"), ("tgt",))
#: The last ones: they may be where a reaction is from, and what a drug binds to.
_LAST = (("source",), ("target",))


@dataclass(frozen=True)
class Pair:
    """A query, its target and its group, as they are in the table; and its identifier there."""

    query: str
    target: str
    group: str = ""
    name: str = field(default="", compare=False)


class PairTable:
    """Columns of a table with a header; tabs between its cells, or .csv; plain, .gz or .xz.

    If no column is named, queries are in src, query or source, targets in tgt or target; with
    `task`, also in product and reactants (of a "product" model with the reagents, if they have a
    column), or both in the first column with a reaction, whose sides
    `task` decides. Queries have a group only if its column is named.

    Iterating opens the file again and reads a row at a time. Empty lines are not rows; a missing
    cell is empty.

    Raises ValueError if the table has no such column or is a pipe, OSError if it cannot be read.
    """

    def __init__(
        self,
        path: Path,
        query_column: str | None = None,
        target_column: str | None = None,
        task: Task | None = None,
        group_column: str | None = None,
    ) -> None:
        self.path, self._task = path, task
        check_rereadable(path)
        usual = zip(_COLUMNS, COLUMNS[task], _LAST, strict=True)
        queries, targets = (tuple(chain(*names)) for names in usual)
        self._sides = [
            Column("query_column", query_column, queries, needed=True),
            Column("target_column", target_column, targets, needed=True),
        ]
        self._others = [Column("group_column", group_column), Column("", usual=NAME_COLUMNS)]
        with closing(read_cells(path)) as rows:
            names, _ = self._read(rows)
        self.query_column, self.target_column, group, _ = names
        self.group_column = group or None

    def __iter__(self) -> Iterator[Pair]:
        with closing(read_cells(self.path, keep_blanks=True)) as rows:
            for cells in self._read(rows)[1]:
                yield Pair(*cells)

    def _read(self, rows: Iterator[NumberedRow]) -> tuple[list[str], Iterator[list[str]]]:
        return read_table(self.path, rows, self._sides, self._others, self._task)
