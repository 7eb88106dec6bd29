"""Reaction SMILES in files: their columns, and the side that a model reads or answers."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from molspec.common.tables import cell_at, choose_column, first_column, with_row_names
from molspec.common.task import COLUMNS, REAGENT_COLUMNS, Task
from molspec.text import smiles, tokens

#: Rows in which a column of reactions is looked for.
PEEKED_ROWS = 100
MAP_NUMBER = re.compile(r":([1-9]\d*)\]")

#: The number of a row in its file, and its cells.
NumberedRow = tuple[int, list[str]]


def column_of_reactions(rows: Sequence[NumberedRow]) -> int | None:
    """Find the first column with a reaction in one of `rows`."""
    columns = (index for _, cells in rows for index, cell in enumerate(cells) if is_reaction(cell))
    return next(columns, None)


def is_reaction(cell: str) -> bool:
    """Whether a cell has a reaction with both sides."""
    sides = tokens.reaction_sides(reaction_of(cell))
    if len(sides) != 3 or not sides[0] or not sides[2]:
        return False
    try:
        return tokens.has_dative_bond(sides[0]) or bool(tokens.tokenize(sides[0]))
    except tokens.TokenizationError:
        return False


def reaction_of(cell: str) -> str:
    """The reaction of a cell, without the words after it: an extension, a name, its edits."""
    return next(iter(tokens.plain_smiles(cell).split()), "")


@dataclass(frozen=True)
class Column:
    """A column to find in a table: the one that `option` names, or the first of the `usual` names.

    needed: whether a table without any of them is refused.
    """

    option: str
    name: str | None = None
    usual: Sequence[str] = ()
    needed: bool = False

    def index(self, where: Path | str, header: Sequence[str]) -> int | None:
        """Its place in a header; None if it is not there. Raises ValueError as `choose_column`."""
        if self.needed or self.name is not None:
            return choose_column(where, header, self.option, self.name, self.usual)
        return first_column(header, self.usual)


def read_table(
    where: Path | str,
    rows: Iterator[NumberedRow],
    sides: Sequence[Column],
    others: Sequence[Column] = (),
    task: Task | None = None,
) -> tuple[list[str], Iterator[list[str]]]:
    """The names of columns in a table, and each row's cells in them, "" if a row has none.

    A column without a header is named by its number, one that is not there "".

    sides: the columns of queries and of answers; `task` decides which part of a whole reaction
        they are. If it is given, and none of them is named or found, the first column with a
        reaction stands for all. Then a table whose first row has a reaction needs no header. Of
        reactants for a product, the reagents belong to the query, if they have a column.

    Raises ValueError if there is no such column.
    """
    header, indices, rows = _find_sides(where, rows, sides, task)
    is_usual = task == "product" and sides[0].name is None
    reagents = reagents_column(header, indices[0]) if is_usual else None
    indices += [other.index(where, header) for other in others]

    def found(cells: list[str]) -> list[str]:
        query, *rest = (cell_at(cells, index) for index in indices)
        answers, rest = rest[: len(sides) - 1], rest[len(sides) - 1 :]
        parts = [reaction_part(tokens.plain_smiles(query), task), cell_at(cells, reagents)]
        return [
            ".".join(filter(None, map(str.strip, parts)))
            if parts[1]
            else parts[0] + tokens.extension_of(query),
            *(reaction_part(tokens.plain_smiles(it.strip()), task, answer=True) for it in answers),
            *map(str.strip, rest),
        ]

    names = ("" if at is None else header[at] if header else f"{at + 1}" for at in indices)
    return [*names], (found(cells) for _, cells in rows)


def _find_sides(
    where: Path | str, rows: Iterator[NumberedRow], sides: Sequence[Column], task: Task | None
) -> tuple[list[str], list[int | None], Iterator[NumberedRow]]:
    """The header of a table, the places of `sides`, and the rows below it; see `read_table`."""
    by_content = task is not None and all(side.name is None for side in sides)
    first = next(rows, (0, []))
    if by_content and (column := column_of_reactions([first])) is not None:
        return [], [column] * len(sides), chain([first], rows)
    header, rows = with_row_names([name.strip() for name in first[1]], rows, where)
    try:
        return header, [side.index(where, header) for side in sides], rows
    except ValueError:
        peeked = list(islice(rows, PEEKED_ROWS)) if by_content else []
        if (column := column_of_reactions(peeked)) is None:
            raise
        return header, [column] * len(sides), chain(peeked, rows)


def reagents_column(header: Sequence[str], reactants: int | None) -> int | None:
    """The column of the reagents beside a column; None if that one is not of reactants."""
    named = cell_at(header, reactants).casefold() in COLUMNS["product"][0]
    return first_column(header, REAGENT_COLUMNS) if named else None


def reaction_part(text: str, task: Task | None, *, answer: bool = False) -> str:
    """The text, or of a whole reaction what a model of `task` reads, or answers, as of `prepare`.

    That is new products, or what is before them: for an answer, the reactants that give an atom to
    the product, or all if none has its map numbers; for a query, reactants and reagents. A part
    with atom maps becomes canonical, without them.
    """
    sides = tokens.reaction_sides(reaction_of(text)) if ">" in text and task is not None else []
    if len(sides) != 3:
        return text
    reactants, reagents, products = sides
    numbers = {*MAP_NUMBER.findall(products)}
    if (task == "retro") != answer:
        given = filter(None, re.split("[.~]", f"{reactants}.{reagents}"))
        before = {smiles.canonicalise(each) for each in given}
        parts = products.split(".")
        part = ".".join(
            each
            for each in filter(None, parts)
            if len(parts) < 2 or smiles.canonicalise(each) not in before
        )
        part = part or products
    elif answer:
        parts = re.split("[.~]", reactants)
        giving = (each for each in parts if not numbers.isdisjoint(MAP_NUMBER.findall(each)))
        part = ".".join(giving) or reactants
    else:
        part = ".".join(filter(None, (reactants, reagents)))
    return (smiles.canonicalise(part) or part) if MAP_NUMBER.search(part) else part
