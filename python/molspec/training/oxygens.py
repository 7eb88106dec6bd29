"""One map for the oxygens of a group that can be mapped either way.

An ester that is hydrolysed has two oxygens, and so has its acid: programs that map atoms give the
product's acid either of them, so that the same product would begin sometimes with `OC(=O)` and
sometimes with `O=C(O)`. Oxygens of one atom whose map does not agree with their bonds are therefore
mapped by these: double to double, single to single.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rdkit import Chem

from molspec.training.rooting import Molecule

#: A molecule's index, an atom's index, and whether its bond is double.
_Oxygen = tuple[int, int, bool]


def map_by_bonds(
    before: Sequence[Molecule], after: Sequence[Molecule]
) -> tuple[list[Molecule], list[Molecule]]:
    """Map the oxygens of the atoms that `before` and `after` have in common by their bonds.

    This is done where one of both sides has two oxygens or more, one of them with a double bond:
    esters, acids, nitro groups, sulfonates. An oxygen of `after` keeps its map number if its bond
    to the atom is single or double on both sides alike, or if it comes from elsewhere and has a
    second neighbour: from an alcohol, but not from water. The others are numbered by their atom and
    bond, below 0.
    """
    numbers = [[list(molecule.map_numbers) for molecule in side] for side in (before, after)]
    sources, targets = _by_center(before), _by_center(after)
    groups = [
        center
        for center in sorted(sources.keys() & targets.keys())
        if _is_group(sources[center]) or _is_group(targets[center])
    ]
    for center in groups:
        bonds = {numbers[0][molecule][atom]: double for molecule, atom, double in sources[center]}
        for molecule, atom, double in targets[center]:
            number = numbers[1][molecule][atom]
            alone = after[molecule].rdkit.GetAtomWithIdx(atom).GetDegree() == 1
            if not number or (bonds[number] != double if number in bonds else alone):
                numbers[1][molecule][atom] = _number(center, double)
    kept = {number for each in numbers[1] for number in each if number}
    for center in groups:
        for molecule, atom, double in sources[center]:
            if numbers[0][molecule][atom] not in kept:
                numbers[0][molecule][atom] = _number(center, double)
    return _with(before, numbers[0]), _with(after, numbers[1])


def _by_center(molecules: Sequence[Molecule]) -> dict[int, list[_Oxygen]]:
    """Oxygens beside each mapped atom, by its map number; a number used twice is not there."""
    uses = Counter(number for molecule in molecules for number in molecule.map_numbers)
    found: dict[int, list[_Oxygen]] = {n: [] for n, count in uses.items() if n and count == 1}
    for index, molecule in enumerate(molecules):
        for bond in molecule.rdkit.GetBonds():
            ends = bond.GetBeginAtom(), bond.GetEndAtom()
            for center, oxygen in (ends, ends[::-1]):
                number = molecule.map_numbers[center.GetIdx()]
                if number in found and oxygen.GetAtomicNum() == 8:
                    double = bond.GetBondType() == Chem.BondType.DOUBLE
                    found[number].append((index, oxygen.GetIdx(), double))
    return found


def _number(center: int, double: bool) -> int:
    return -2 * center - double


def _is_group(oxygens: Sequence[_Oxygen]) -> bool:
    return len(oxygens) > 1 and any(double for _, _, double in oxygens)


def _with(molecules: Sequence[Molecule], numbers: Sequence[Sequence[int]]) -> list[Molecule]:
    return [
        replace(molecule, map_numbers=tuple(each))
        for molecule, each in zip(molecules, numbers, strict=True)
    ]
