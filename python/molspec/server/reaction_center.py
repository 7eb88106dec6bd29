"""Finds the changes of a reaction by atom maps, or by common substructures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rdkit import Chem

from molspec.text.correspondence import Same, corresponding_atoms


@dataclass
class Change:
    """Atoms and bonds of one molecule that the reaction changes.

    there: for a reactant, the atom of the product for each of its own that corresponds.
    """

    atoms: set[int] = field(default_factory=set)
    bonds: set[int] = field(default_factory=set)
    there: dict[int, int] = field(default_factory=dict, compare=False)


def changes(reactants: Sequence[Chem.Mol], product: Chem.Mol) -> tuple[list[Change], Change]:
    """The changes in each of the reactants, and in the product.

    Atoms correspond if they have the same map, or, if no map is on both sides, by substructures.
    Changed are atoms without a corresponding atom, bonds without a corresponding bond, and the
    atoms of those bonds.
    """
    same = _by_maps(reactants, product) or corresponding_atoms(reactants, product)
    of_reactants = []
    for number, reactant in enumerate(reactants):
        there = {ours: (0, theirs) for theirs, (index, ours) in same.items() if index == number}
        change = _change(reactant, [product], there, keeps_own_bonds=True)
        change.there = {ours: theirs for ours, (_, theirs) in there.items()}
        of_reactants.append(change)
    return of_reactants, _change(product, reactants, same, keeps_own_bonds=False)


def _by_maps(reactants: Sequence[Chem.Mol], product: Chem.Mol) -> Same:
    borne = {
        number: (index, atom.GetIdx())
        for index, reactant in enumerate(reactants)
        for atom in reactant.GetAtoms()
        if (number := atom.GetAtomMapNum())
    }
    return {
        atom.GetIdx(): borne[atom.GetAtomMapNum()]
        for atom in product.GetAtoms()
        if atom.GetAtomMapNum() in borne
    }


def _change(
    molecule: Chem.Mol,
    others: Sequence[Chem.Mol],
    same: Mapping[int, tuple[int, int]],
    keeps_own_bonds: bool,
) -> Change:
    """Atoms of a molecule that the others lack, and bonds that they lack between the same atoms.

    same: by atom, the number of another molecule, and the atom there.
    keeps_own_bonds: bonds between two atoms that the others lack do not count as changed.
    """
    change = Change(atoms=set(range(molecule.GetNumAtoms())) - set(same))
    for bond in molecule.GetBonds():
        begin, end = same.get(bond.GetBeginAtomIdx()), same.get(bond.GetEndAtomIdx())
        if begin is None and end is None and keeps_own_bonds:
            continue
        other = None
        if begin is not None and end is not None and begin[0] == end[0]:
            other = others[begin[0]].GetBondBetweenAtoms(begin[1], end[1])
        if other is None or other.GetBondType() != bond.GetBondType():
            change.bonds.add(bond.GetIdx())
            change.atoms |= {bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()}
    return change
