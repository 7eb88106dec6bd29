"""Tables of queries and targets, read row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from molspec.common.tables import (
    NAME_COLUMNS,
    cell_at,
    check_rereadable,
    choose_column,
    first_column,
    read_cells,
)
from molspec.common.task import COLUMNS, Task
from molspec.text import plain_smiles
from molspec.text.reactions import (
    find_columns,
    reaction_part,
    reagents_column,
    with_reagents,
)

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
        self.path = path
        check_rereadable(path)
        queries, targets = (
            (*names, *own, *last)
            for names, own, last in zip(_COLUMNS, COLUMNS[task], _LAST, strict=True)
        )

        def chosen(header: Sequence[str]) -> Sequence[int]:
            return (
                choose_column(path, header, "query_column", query_column, queries),
                choose_column(path, header, "target_column", target_column, targets),
            )

        by_content = task is not None and query_column is None and target_column is None
        with closing(read_cells(path)) as rows:
            header, columns, _ = find_columns(rows, chosen, by_content)
        self._task, self._has_header, self._columns = task, bool(header), [*columns]
        self.query_column, self.target_column = (
            header[index] if header else f"{index + 1}" for index in columns
        )
        is_default = task == "product" and query_column is None
        self._reagents = reagents_column(header, columns[0]) if is_default else None
        self._name = first_column(header, NAME_COLUMNS)
        self.group_column = None
        if group_column is not None:
            index = choose_column(path, header, "group_column", group_column, ())
            self._columns.append(index)
            self.group_column = header[index]

    def __iter__(self) -> Iterator[Pair]:
        with closing(read_cells(self.path, keep_blanks=True)) as rows:
            if self._has_header:
                next(rows, None)
            for _, cells in rows:
                query, *others = (cell_at(cells, index) for index in self._columns)
                target, *group = map(str.strip, others)
                asked = reaction_part(plain_smiles(query), self._task)
                yield Pair(
                    with_reagents(asked, cell_at(cells, self._reagents)),
                    reaction_part(plain_smiles(target), self._task, answer=True),
                    group="".join(group),
                    name=cell_at(cells, self._name).strip(),
                )
