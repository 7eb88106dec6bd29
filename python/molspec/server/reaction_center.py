"""Finds the changes of a reaction by atom maps, or by common substructures."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from rdkit import Chem
from rdkit.Chem import rdFMCS

#: Seconds of a search for a substructure; then the best one so far counts. After as many seconds
#: of all searches no further one begins: other requests wait for them.
_SECONDS = 1
#: Minimum atoms of a common substructure.
_SMALLEST = 2


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

    Atoms correspond if they have the same map. If no map is on both sides, they correspond by the
    largest common substructures of each reactant and the rest of the product, reactants by size.
    Changed are atoms without a corresponding atom, bonds without a corresponding bond, and the
    atoms of those bonds.
    """
    same = _by_maps(reactants, product) or _by_substructure(reactants, product)
    of_reactants = []
    for number, reactant in enumerate(reactants):
        there = {ours: (0, theirs) for theirs, (index, ours) in same.items() if index == number}
        change = _change(reactant, [product], there, keeps_own_bonds=True)
        change.there = {ours: theirs for ours, (_, theirs) in there.items()}
        of_reactants.append(change)
    return of_reactants, _change(product, reactants, same, keeps_own_bonds=False)


#: By atom of the product: the number of a reactant, and the atom there.
_Same = dict[int, tuple[int, int]]


def _by_maps(reactants: Sequence[Chem.Mol], product: Chem.Mol) -> _Same:
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


def _by_substructure(reactants: Sequence[Chem.Mol], product: Chem.Mol) -> _Same:
    same: _Same = {}
    began = perf_counter()
    order = sorted(range(len(reactants)), key=lambda i: -reactants[i].GetNumAtoms())
    for index in order:
        fewest = min(reactants[index].GetNumAtoms(), product.GetNumAtoms() - len(same))
        if fewest >= _SMALLEST and perf_counter() - began < _SECONDS:
            found = _common(reactants[index], product, same)
            same |= {theirs: (index, ours) for theirs, ours in found}
    return same


def _common(reactant: Chem.Mol, product: Chem.Mol, taken: Collection[int]) -> list[tuple[int, int]]:
    """Pairs of atoms, of the product without those taken and of the reactant, that correspond."""
    editable = Chem.RWMol(product)
    for atom in editable.GetAtoms():
        atom.SetIntProp("place", atom.GetIdx())
    for index in sorted(taken, reverse=True):
        editable.RemoveAtom(index)
    piece = editable.GetMol()
    Chem.FastFindRings(piece)
    found = rdFMCS.FindMCS(
        [reactant, piece],
        timeout=_SECONDS,
        ringMatchesRingOnly=False,
        completeRingsOnly=False,
        bondCompare=rdFMCS.BondCompare.CompareOrder,
    )
    if found.numAtoms < _SMALLEST:
        return []
    query = Chem.MolFromSmarts(found.smartsString)
    ours, theirs = reactant.GetSubstructMatch(query), piece.GetSubstructMatch(query)
    # A molecule with query bonds, such as C~C, may have no match.
    return [
        (piece.GetAtomWithIdx(there).GetIntProp("place"), here)
        for here, there in zip(ours, theirs, strict=False)
    ]


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
