"""Reaction files: lines or tables with a reaction SMILES in each row."""

from __future__ import annotations

import csv
import gzip
import lzma
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from molspec.text import TokenizationError, tokenize
from molspec.training.rooting import Molecule, UnfitReactionError

#: Names of the columns that hold a reaction without atom maps: left side, right side.
_SIDES = (("reactants", "product"), ("src", "tgt"), ("source", "target"))
_PEEKED_ROWS = 100
_OPEN: dict[str, Callable[..., IO[Any]]] = {".gz": gzip.open, ".xz": lzma.open}


@dataclass(frozen=True)
class Row:
    """One row of a file: `reaction` is `reactants>agents>products`, as it stands there."""

    file: str
    number: int
    reaction: str


@dataclass(frozen=True, eq=False)
class Reaction:
    """A reaction whose products are new: none of them stands on the left too."""

    reactants: tuple[Molecule, ...]
    agents: tuple[Molecule, ...]
    products: tuple[Molecule, ...]

    @classmethod
    def parse(cls, text: str) -> Reaction:
        """Read `reactants>agents>products`. Raises UnfitReactionError."""
        sides = text.split(">")
        if len(sides) != 3:
            raise UnfitReactionError("not a reaction SMILES")
        reactants, agents, products = (
            tuple(Molecule.parse(part) for part in side.split(".") if part) for side in sides
        )
        if not reactants:
            raise UnfitReactionError("no reactants")
        before = {molecule.smiles for molecule in reactants + agents}
        new = tuple(molecule for molecule in products if molecule.smiles not in before)
        if not new:
            raise UnfitReactionError("no new product")
        return cls(reactants, agents, new)


def read_rows(path: Path, reaction_column: str | None = None) -> Iterator[Row]:
    """Rows of a file of reactions, numbered as lines from 1.

    A file is a table with a header (tabs; commas where it is called .csv) or has a reaction SMILES
    in each line; it may be compressed (.gz, .xz). In a table the reaction is in `reaction_column`,
    by default the first column that holds one in the first rows; where that cell is empty, in the
    columns reactants and product, src and tgt, or source and target.

    Raises ValueError where there is no such column, OSError where the file cannot be read.
    """
    opened = _OPEN.get(path.suffix, open)
    with opened(path, "rt", encoding="utf-8", errors="replace", newline="") as stream:
        if ".csv" in path.suffixes:
            table = csv.reader(stream)
        else:
            table = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        peeked = list(islice(table, _PEEKED_ROWS))
        column = _reaction_column(peeked[:1])
        header = peeked.pop(0) if peeked and column is None else []
        if column is None:
            named = _named_column(path, header, reaction_column)
            column = _reaction_column(peeked) if named is None else named
        sides = [tuple(map(header.index, names)) for names in _SIDES if set(names) <= set(header)]
        if column is None and not sides:
            raise ValueError(f"{path}: no column of reaction SMILES in its first rows")
        for number, cells in enumerate(chain(peeked, table), start=2 if header else 1):
            if cells:
                yield Row(path.name, number, _reaction(cells, column, sides))


def _reaction_column(rows: Sequence[Sequence[str]]) -> int | None:
    """Find the first column that holds a reaction in one of `rows`."""
    columns = (index for cells in rows for index, cell in enumerate(cells) if _is_reaction(cell))
    return next(columns, None)


def _is_reaction(cell: str) -> bool:
    sides = cell.split(" ")[0].split(">")
    if len(sides) != 3 or not sides[0] or not sides[2]:
        return False
    try:
        return bool(tokenize(sides[0]))
    except TokenizationError:
        return False


def _named_column(path: Path, header: Sequence[str], name: str | None) -> int | None:
    if name is not None and name not in header:
        raise ValueError(
            f"reaction_column is {name!r}: expected one of {', '.join(header)}, as in {path}"
        )
    return None if name is None else header.index(name)


def _reaction(cells: Sequence[str], column: int | None, sides: Sequence[tuple[int, ...]]) -> str:
    """Give the reaction SMILES of a row, "" where it has none."""
    if column is not None and column < len(cells) and (text := cells[column].strip()):
        return text.split(" ")[0]  # what follows a space is ChemAxon's extension
    for left, right in sides:
        if max(left, right) < len(cells):
            return f"{cells[left]}>>{cells[right]}"
    return ""
