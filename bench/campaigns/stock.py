"""Makes the stock `common`: the molecules that at least three products of reactions have atoms of.

    python bench/campaigns/stock.py REACTIONS... --exclude FILE | xz -9e > molecules.tsv.xz

Atom maps tell. A molecule to exclude is left out, unless 100 products have atoms of it.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from molspec.planners.stock import Stock, read_stock
from molspec.text import canonicalise, quiet, reaction_sides, read_smiles
from molspec.text.reactions import MAP_NUMBER
from molspec.training.reactions import Row, read_rows

_canonical = lru_cache(1 << 18)(canonicalise)


def starting_molecules(rows: Iterable[Row]) -> Counter[str]:
    pairs = set[tuple[str, str]]()
    for row in rows:
        *left, right = reaction_sides(row.reaction)
        numbers = set(MAP_NUMBER.findall(right))
        parts = ".".join(left).split(".")
        given = _molecules(p for p in parts if not numbers.isdisjoint(MAP_NUMBER.findall(p)))
        if made := ".".join(sorted(_molecules(right.split(".")) - given)):
            pairs.update((molecule, made) for molecule in given)
    return Counter(molecule for molecule, _ in pairs)


def _molecules(texts: Iterable[str]) -> set[str]:
    return {*filter(None, (_canonical(MAP_NUMBER.sub("]", text)) for text in texts))}


def is_small(smiles: str) -> bool:
    with quiet():
        atoms = [*read_smiles(smiles).GetAtoms()]
    is_plain = all(atom.GetAtomicNum() and not atom.GetNumRadicalElectrons() for atom in atoms)
    return is_plain and sum(atom.GetAtomicNum() > 1 for atom in atoms) <= 20


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="REACTIONS")
    parser.add_argument("--exclude", action="append", type=Path)
    flags = parser.parse_args(arguments)
    out = read_stock(flags.exclude) if flags.exclude else Stock()
    counts = starting_molecules(row for path in flags.files for row in read_rows(path))
    print("smiles\tname")
    for smiles, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if count >= 3 and (count >= 100 or smiles not in out) and is_small(smiles):
            print(f"{smiles}\tin {count} products")


if __name__ == "__main__":
    main()
