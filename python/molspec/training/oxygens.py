"""One map for the oxygens of a group that can be mapped either way.

An ester that is hydrolysed has two oxygens, and so has its acid: programs that map atoms give the
product's acid either of them, so that the same product would begin sometimes with `OC(=O)` and
sometimes with `O=C(O)`. Oxygens of one atom are therefore mapped by their bonds: double to double,
single to single.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from rdkit import Chem

from molspec.training.rooting import Molecule

#: A molecule's index, an atom's index, and whether its bond is double.
_Oxygen = tuple[int, int, bool]


def map_by_bonds(
    before: Sequence[Molecule], after: Sequence[Molecule]
) -> tuple[list[Molecule], list[Molecule]]:
    """Map the oxygens of the atoms that `before` and `after` have in common by their bonds.

    This is done where one of both sides has two oxygens or more, one of them with a double bond:
    esters, acids, nitro groups, sulfonates. An oxygen of `after` that comes from elsewhere, for
    example from an alcohol, keeps its map number, unless it is a hydroxyl group, which may come
    from water.
    """
    numbers = [[list(molecule.map_numbers) for molecule in side] for side in (before, after)]
    centers = [_by_center(side) for side in (before, after)]
    unused = count(1 + max((n for side in numbers for each in side for n in each), default=0))
    for number in centers[0].keys() & centers[1].keys():
        sources, targets = centers[0][number], centers[1][number]
        if not (_is_group(sources) or _is_group(targets)):
            continue
        known = {numbers[0][molecule][atom] for molecule, atom, _ in sources} | {0}
        free = [
            (molecule, atom, double)
            for molecule, atom, double in targets
            if numbers[1][molecule][atom] in known
            or after[molecule].rdkit.GetAtomWithIdx(atom).GetDegree() == 1
        ]
        for molecule, atom, _ in free:
            numbers[1][molecule][atom] = 0
        for source, target in _matched(sources, free):
            numbers[0][source[0]][source[1]] = numbers[0][source[0]][source[1]] or next(unused)
            numbers[1][target[0]][target[1]] = numbers[0][source[0]][source[1]]
    return _with(before, numbers[0]), _with(after, numbers[1])


def _by_center(molecules: Sequence[Molecule]) -> dict[int, list[_Oxygen]]:
    """Oxygens beside each mapped atom, by its map number; those of a number used twice are not."""
    found: dict[int, list[_Oxygen]] = {}
    uses = Counter(number for molecule in molecules for number in molecule.map_numbers)
    for index, molecule in enumerate(molecules):
        for bond in molecule.rdkit.GetBonds():
            ends = bond.GetBeginAtom(), bond.GetEndAtom()
            for center, oxygen in (ends, ends[::-1]):
                number = molecule.map_numbers[center.GetIdx()]
                if number and uses[number] == 1 and oxygen.GetAtomicNum() == 8:
                    double = bond.GetBondType() == Chem.BondType.DOUBLE
                    found.setdefault(number, []).append((index, oxygen.GetIdx(), double))
    return found


def _is_group(oxygens: Sequence[_Oxygen]) -> bool:
    return len(oxygens) > 1 and any(double for _, _, double in oxygens)


def _matched(
    sources: Sequence[_Oxygen], targets: Sequence[_Oxygen]
) -> Iterator[tuple[_Oxygen, _Oxygen]]:
    """Pairs of oxygens: of the same bond first, then the rest in order."""
    left, right = list(sources), list(targets)
    for same in (True, False):
        for source in tuple(left):
            target = next((each for each in right if not same or each[2] == source[2]), None)
            if target is not None:
                left.remove(source)
                right.remove(target)
                yield source, target


def _with(molecules: Sequence[Molecule], numbers: Sequence[Sequence[int]]) -> list[Molecule]:
    return [
        replace(molecule, map_numbers=tuple(each))
        for molecule, each in zip(molecules, numbers, strict=True)
    ]
