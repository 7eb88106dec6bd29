"""Counts the molecules that reactions begin with, to make a stock of."""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from molspec.text import canonicalise, quiet, reaction_sides, read_smiles
from molspec.text.reactions import MAP_NUMBER
from molspec.training.reactions import Row

_canonical = lru_cache(1 << 18)(canonicalise)


def starting_molecules(rows: Iterable[Row]) -> Counter[str]:
    """How many different products each molecule gives atoms to, by canonical SMILES.

    Atom maps tell that: a reaction without them adds nothing.
    """
    pairs = set[tuple[str, str]]()
    for row in rows:
        *left, right = reaction_sides(row.reaction)
        numbers = set(MAP_NUMBER.findall(right))
        parts = (part for side in left for part in side.split("."))
        given = _molecules(p for p in parts if not numbers.isdisjoint(MAP_NUMBER.findall(p)))
        if made := ".".join(sorted(_molecules(right.split(".")) - given)):
            pairs.update((molecule, made) for molecule in given)
    return Counter(molecule for molecule, _ in pairs)


def _molecules(texts: Iterable[str]) -> set[str]:
    return {each for text in texts if (each := _canonical(MAP_NUMBER.sub("]", text))) is not None}


def is_small(smiles: str, most_atoms: int) -> bool:
    """Whether it is a molecule, or an ion, of few heavy atoms: without radicals and dummy atoms."""
    with quiet():
        molecule = read_smiles(smiles)
    if molecule is None or molecule.GetNumHeavyAtoms() > most_atoms:
        return False
    return all(at.GetAtomicNum() and not at.GetNumRadicalElectrons() for at in molecule.GetAtoms())
