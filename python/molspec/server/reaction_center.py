"""What a reaction changes in its molecules: by atom maps, or by what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rdkit import Chem
from rdkit.Chem import rdFMCS

#: Seconds that a substructure is looked for; what was found until then counts.
_SECONDS = 1
#: Atoms that a piece of a molecule has at least to be taken for the same.
_SMALLEST = 2


@dataclass
class Change:
    """Atoms and bonds of one molecule that the reaction makes, breaks or loses."""

    atoms: set[int] = field(default_factory=set)
    bonds: set[int] = field(default_factory=set)


def changes(reactants: Sequence[Chem.Mol], product: Chem.Mol) -> tuple[list[Change], Change]:
    """What changes in each of the reactants, and in the product.

    Atoms are the same where they bear the same map; where none is borne on both sides, where they
    lie in the largest substructures that a reactant and the rest of the product have in common,
    reactants by size. Of the reactants the atoms change that the product has not, of the product
    those that no reactant has, of both the bonds that are not there on the other side between the
    same atoms, and their atoms.
    """
    same = _by_maps(reactants, product) or _by_substructure(reactants, product)
    of_product = Change(atoms=set(range(product.GetNumAtoms())) - set(same))
    of_reactants = []
    for number, reactant in enumerate(reactants):
        there = {ours: theirs for theirs, (index, ours) in same.items() if index == number}
        change = Change(atoms=set(range(reactant.GetNumAtoms())) - set(there))
        _compare_bonds(reactant, product, there, change)
        of_reactants.append(change)
    for bond in product.GetBonds():
        ends = [same.get(atom.GetIdx()) for atom in (bond.GetBeginAtom(), bond.GetEndAtom())]
        begin, end = ends
        if begin is None or end is None or not _has_like(reactants, begin, end, bond):
            _mark(of_product, bond)
    return of_reactants, of_product


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
    order = sorted(range(len(reactants)), key=lambda i: -reactants[i].GetNumAtoms())
    for index in order:
        rest = [i for i in range(product.GetNumAtoms()) if i not in same]
        if len(rest) < _SMALLEST or reactants[index].GetNumAtoms() < _SMALLEST:
            continue
        for theirs, ours in _common(reactants[index], product, rest):
            same[theirs] = index, ours
    return same


def _common(reactant: Chem.Mol, product: Chem.Mol, rest: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of atoms, of the product and of the reactant, that lie in a common substructure."""
    editable = Chem.RWMol(product)
    for atom in editable.GetAtoms():
        atom.SetIntProp("place", atom.GetIdx())
    for index in sorted(set(range(product.GetNumAtoms())) - set(rest), reverse=True):
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
    return [
        (piece.GetAtomWithIdx(there).GetIntProp("place"), here)
        for here, there in zip(ours, theirs, strict=True)
    ]


def _compare_bonds(
    reactant: Chem.Mol, product: Chem.Mol, there: dict[int, int], change: Change
) -> None:
    """Mark the reactant's bonds that the product has not."""
    for bond in reactant.GetBonds():
        begin, end = there.get(bond.GetBeginAtomIdx()), there.get(bond.GetEndAtomIdx())
        if begin is None or end is None:
            if begin is not None or end is not None:
                _mark(change, bond)
            continue
        other = product.GetBondBetweenAtoms(begin, end)
        if other is None or other.GetBondType() != bond.GetBondType():
            _mark(change, bond)


def _has_like(
    reactants: Sequence[Chem.Mol], begin: tuple[int, int], end: tuple[int, int], bond: Chem.Bond
) -> bool:
    """Whether the reactants have the product's bond between the same atoms."""
    if begin[0] != end[0]:
        return False
    other = reactants[begin[0]].GetBondBetweenAtoms(begin[1], end[1])
    return other is not None and other.GetBondType() == bond.GetBondType()


def _mark(change: Change, bond: Chem.Bond) -> None:
    change.bonds.add(bond.GetIdx())
    change.atoms |= {bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()}
