"""Tables of queries and targets, read row by row."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path

from molspec.common.tables import NAME_COLUMNS, check_rereadable, open_lines, read_cells
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

    Or two files, of queries and of their targets, with a line for each pair: columns src and tgt.

    If no column is named, queries are in src, query or source, targets in tgt or target; with
    `task`, also in product and reactants (of a "product" model with the reagents, if they have a
    column), or both in the first column with a reaction, whose sides
    `task` decides. Queries have a group only if its column is named.

    Iterating opens the file again and reads a row at a time. Empty lines are not rows; a missing
    cell is empty.

    Raises ValueError if the table has no such column or is a pipe, or if one of two files has more
    lines, OSError if a file cannot be read.
    """

    def __init__(
        self,
        paths: Path | Sequence[Path],
        query_column: str | None = None,
        target_column: str | None = None,
        task: Task | None = None,
        group_column: str | None = None,
    ) -> None:
        self.paths = [paths] if isinstance(paths, Path) else [*paths]
        if len(self.paths) > 2:
            raise ValueError(f"{len(self.paths)} files: expected a table, or queries and targets")
        for path in self.paths:
            check_rereadable(path)
        self._task = task
        usual = zip(_COLUMNS, COLUMNS[task], _LAST, strict=True)
        queries, targets = (tuple(chain(*names)) for names in usual)
        self._sides = [
            Column("query_column", query_column, queries, needed=True),
            Column("target_column", target_column, targets, needed=True),
        ]
        self._others = [Column("group_column", group_column), Column("", usual=NAME_COLUMNS)]
        with closing(self._rows()) as rows:
            names, rest = self._read(rows)
            for _ in rest if len(self.paths) > 1 else ():
                pass  # finds unequal lengths now, not after hours
        self.query_column, self.target_column, group, _ = names
        self.group_column = group or None

    def __iter__(self) -> Iterator[Pair]:
        with closing(self._rows(keep_blanks=True)) as rows:
            for cells in self._read(rows)[1]:
                yield Pair(*cells)

    def _read(self, rows: Iterator[NumberedRow]) -> tuple[list[str], Iterator[list[str]]]:
        return read_table(self.paths[0], rows, self._sides, self._others, self._task)

    def _rows(self, keep_blanks: bool = False) -> Generator[tuple[int, list[str]], None, None]:
        """The rows of the table, or of two files under the header src, tgt."""
        if len(self.paths) == 1:
            yield from read_cells(self.paths[0], keep_blanks=keep_blanks)
            return
        yield 0, ["src", "tgt"]
        with open_lines(self.paths[0]) as queries, open_lines(self.paths[1]) as targets:
            for number, pair in enumerate(zip_longest(queries, targets), start=1):
                cells = [(line or "").strip("\r\n" if keep_blanks else None) for line in pair]
                if not any(map(str.strip, cells)):
                    continue
                if None in pair:
                    longer, shorter = self.paths if pair[1] is None else self.paths[::-1]
                    raise ValueError(f"{longer} has a line {number}, {shorter} has none")
                yield number, cells
