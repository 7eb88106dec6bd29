"""Reaction files: lines or tables with a reaction SMILES in each row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from molspec.common import tables
from molspec.common.task import COLUMNS, REAGENT_COLUMNS, Task
from molspec.text import plain_smiles, reaction_sides, reactions, rxn, smiles
from molspec.text.reactions import MAP_NUMBER, PEEKED_ROWS, column_of_reactions, reagents_column
from molspec.training.rooting import Molecule, UnfitReactionError

#: Names of columns with a model's source and target.
_ENDS = (("src", "tgt"), ("source", "target"))


@dataclass(frozen=True)
class Row:
    """One row of a file: `reaction` is its `reactants>agents>products`."""

    file: str
    number: int
    reaction: str

    @property
    def is_mapped(self) -> bool:
        """Whether an atom on the right has the map number of one on the left."""
        *left, right = reaction_sides(self.reaction)
        numbers = MAP_NUMBER.findall(">".join(left))
        return not set(numbers).isdisjoint(MAP_NUMBER.findall(right))


@dataclass(frozen=True, eq=False)
class Reaction:
    """A reaction whose products are new: none of them is on the left too."""

    reactants: tuple[Molecule, ...]
    agents: tuple[Molecule, ...]
    products: tuple[Molecule, ...]

    @classmethod
    def parse(cls, text: str) -> Reaction:
        """Read `reactants>agents>products`. Raises UnfitReactionError."""
        sides = reaction_sides(text)
        if len(sides) != 3:
            raise UnfitReactionError("not a reaction SMILES")
        reactants, agents, products = (tuple(molecules(side)) for side in sides)
        if not reactants:
            raise UnfitReactionError("no reactants")
        before = {molecule.smiles for molecule in reactants + agents}
        new = tuple(molecule for molecule in products if molecule.smiles not in before)
        if not new:
            raise UnfitReactionError("no new product")
        return cls(reactants, agents, new)


def molecules(side: str) -> Iterator[Molecule]:
    """The molecules of a reaction's side. Raises UnfitReactionError."""
    if "~" in (side := smiles.with_dots(side)):
        raise UnfitReactionError("a bond ~ within a molecule, or at a metal without charge")
    return (Molecule.parse(part) for part in side.split(".") if part)


def read_rows(
    path: Path,
    reaction_column: str | None = None,
    task: Task | None = None,
    *,
    needs_column: bool = True,
) -> Iterator[Row]:
    """Rows of a file of reactions, numbered as its lines.

    A file is a table with a header (tabs; commas in a .csv file) or has a reaction SMILES in each
    line; it may be compressed (.gz, .xz). In a table the reaction is in `reaction_column`, by
    default the first column with one in the first rows. If that cell is empty, it is in the columns
    reactants and product, with reagents between them, or, if a task is given, in src and tgt or
    source and target: for "retro" the source is the product.

    needs_column: whether a file without `reaction_column` is refused, or read by the default.

    Raises ValueError if there is no such column, OSError if the file cannot be read.
    """
    table = _cells(path)
    peeked = list(islice(table, PEEKED_ROWS))
    column = column_of_reactions(peeked[:1])
    first = peeked[0][1] if peeked else []
    is_header = column is None and not any(map(_lacks_a_side, first))
    header = peeked.pop(0)[1] if peeked and is_header else []
    if header:
        header, rest = tables.with_row_names(header, iter(peeked), path)
        peeked = list(rest)
    if reaction_column is not None and (
        needs_column or tables.find_column(header, reaction_column) is not None
    ):
        column = tables.choose_column(path, header, "reaction_column", reaction_column, ())
    elif column is None:
        column = column_of_reactions(peeked)
    sides = _sides(header, task)
    if column is None and not sides:
        raise ValueError(
            f"{path}: no reaction SMILES in its first rows and no columns reactants and product, "
            f"src and tgt, or source and target in its header, {tables.name_columns(header)}; two "
            "files of sources and targets are a table by (printf 'src\\ttgt\\n'; paste SRC TGT) > "
            "a.tsv"
        )
    for number, cells in chain(peeked, table):
        yield Row(tables.printable(path), number, _reaction(cells, column, sides))


def _cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table, or the reactions of RXN or RDF by their number."""
    if not {*tables.RXN_ENDINGS} & {*map(str.lower, path.suffixes)}:
        yield from tables.read_cells(path)
        return
    with tables.open_lines(path, records=True) as lines:
        for number, (reaction, _) in enumerate(rxn.read_rxn(lines), start=1):
            yield number, [reaction or ">>"]


def _numbered(header: Sequence[str], *names: str) -> list[int]:
    """The columns of a side that has one a molecule: reactant_000, reactant_001."""
    name = re.compile(f"({'|'.join(names)})[ _-]?[0-9]+", re.IGNORECASE)
    return [index for index, cell in enumerate(header) if name.fullmatch(cell.strip())]


def _sides(header: Sequence[str], task: Task | None) -> list[tuple[list[int], ...]]:
    """Find the columns of left sides, of the reagents beside them, and of right sides."""
    names = [(left, right) for left in COLUMNS["product"][0] for right in COLUMNS["retro"][0]]
    if task is not None:
        names += [(left, right) if task == "product" else (right, left) for left, right in _ENDS]
    found = (
        (tables.find_column(header, left), tables.find_column(header, right))
        for left, right in names
    )
    whole = [
        ([left], [at] if (at := reagents_column(header, left)) is not None else [], [right])
        for left, right in found
        if left is not None and right is not None
    ]
    agents = _numbered(header, *REAGENT_COLUMNS, "solvent", "catalyst")
    lefts, rights = _numbered(header, "reactant"), _numbered(header, "product")
    return [*whole, *([(lefts, agents, rights)] if lefts and rights else [])]


def _lacks_a_side(cell: str) -> bool:
    """Whether it is a reaction without one of its sides, which is not the name of a column."""
    sides = reaction_sides(cell)
    return len(sides) == 3 and not (sides[0] and sides[2])


def _reaction(cells: list[str], column: int | None, sides: Sequence[tuple[list[int], ...]]) -> str:
    """The reaction SMILES of a row, "" if it has none."""
    if column is not None and column < len(cells) and cells[column]:
        return reactions.reaction_of(cells[column])
    for found in sides:
        if max(found[0][0], found[2][0]) < len(cells):
            parts = ((plain_smiles(tables.cell_at(cells, at)) for at in side) for side in found)
            return ">".join(".".join(filter(None, part)) for part in parts)
    return ""
