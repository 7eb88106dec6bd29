"""Reaction SMILES in files: their columns, and the side that a model reads or answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

from molspec.common.tables import first_column
from molspec.common.task import COLUMNS, REAGENT_COLUMNS, Task
from molspec.text.smiles import canonicalise
from molspec.text.tokens import (
    TokenizationError,
    has_dative_bond,
    plain_smiles,
    reaction_sides,
    tokenize,
)

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
    sides = reaction_sides(reaction_of(cell))
    if len(sides) != 3 or not sides[0] or not sides[2]:
        return False
    try:
        return has_dative_bond(sides[0]) or bool(tokenize(sides[0]))
    except TokenizationError:
        return False


def reaction_of(cell: str) -> str:
    """The reaction of a cell, without the words after it: an extension, a name, its edits."""
    return next(iter(plain_smiles(cell).split()), "")


def find_columns(
    rows: Iterator[NumberedRow], choose: Callable[[Sequence[str]], Sequence[int]], by_content: bool
) -> tuple[list[str], Sequence[int], Iterator[NumberedRow]]:
    """The header of a table, the columns that `choose` finds in it, and the rows below it.

    by_content: if `choose` finds none, the first column with a reaction stands for all of them.
        Then a table whose first row has a reaction needs no header.

    Raises ValueError of `choose`.
    """
    first = next(rows, (0, []))
    if by_content and (column := column_of_reactions([first])) is not None:
        return [], (column, column), chain([first], rows)
    header = [name.strip() for name in first[1]]
    try:
        return header, choose(header), rows
    except ValueError:
        peeked = list(islice(rows, PEEKED_ROWS)) if by_content else []
        if (column := column_of_reactions(peeked)) is None:
            raise
        return header, (column, column), chain(peeked, rows)


def reagents_column(header: Sequence[str], reactants: int) -> int | None:
    """The column of the reagents beside a column; None if that one is not of reactants."""
    named = header and header[reactants].casefold() in COLUMNS["product"][0]
    return first_column(header, REAGENT_COLUMNS) if named else None


def with_reagents(reactants: str, reagents: str) -> str:
    """The query of a table's cells."""
    return ".".join(filter(None, map(str.strip, (reactants, reagents)))) if reagents else reactants


def reaction_part(text: str, task: Task | None, *, answer: bool = False) -> str:
    """The text, or of a whole reaction what a model of `task` reads, or answers, as of `prepare`.

    That is new products, or what is before them: for an answer, the reactants that give an atom to
    the product, or all if none has its map numbers; for a query, reactants and reagents. A part
    with atom maps becomes canonical, without them.
    """
    sides = reaction_sides(reaction_of(text)) if ">" in text and task is not None else []
    if len(sides) != 3:
        return text
    reactants, reagents, products = sides
    numbers = MAP_NUMBER.findall(products)
    if (task == "retro") != answer:
        before = {canonicalise(each) for each in re.split("[.~]", f"{reactants}.{reagents}")}
        parts = products.split(".")
        part = ".".join(
            each for each in parts if len(parts) < 2 or canonicalise(each) not in before
        )
        part = part or products
    elif answer:
        parts = re.split("[.~]", reactants)
        giving = (each for each in parts if not set(numbers).isdisjoint(MAP_NUMBER.findall(each)))
        part = ".".join(giving) or reactants
    else:
        part = ".".join(filter(None, (reactants, reagents)))
    return (canonicalise(part) or part) if MAP_NUMBER.search(part) else part
