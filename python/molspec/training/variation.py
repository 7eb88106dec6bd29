"""Variations of mapped reactions: other groups on atoms far from all that a reaction changes.

A model that reads the same reactions many times recalls their products. In a variation, hydrogens,
halogens, methyl groups and ring atoms that take no part are others, on both sides alike, so that
only the reaction itself tells the product.
"""

from collections.abc import Iterator
from random import Random
from typing import TypeAlias

from rdkit import Chem

from molspec.text import quiet, reaction_sides, read_smiles

#: Bonds from an atom that may change to the nearest one that the reaction changes.
_DISTANCE = 3
#: Groups that replace a hydrogen of an aromatic carbon.
_GROUPS = ("F", "Cl", "C", "OC", "C(F)(F)F", "C#N")
#: Numbers of atoms that change, one of which is drawn for each variation.
_COUNTS = (1, 2, 3, 3, 4)

#: A group to add, an atomic number to take, or None: the atom is removed.
_Change: TypeAlias = str | int | None


def vary(reaction: str, count: int, random: Random) -> list[str]:
    """At most `count` different variations of a mapped `reactants>agents>products`, mapped too.

    There are none if RDKit cannot read it, if it has a map number twice, or if no mapped atom is
    far from all that change. Agents stay as they are.
    """
    sides = reaction_sides(reaction)
    if len(sides) != 3:
        return []
    left, agents, right = sides
    with quiet():
        reactants, products = read_smiles(left), read_smiles(right)
        if reactants is None or products is None:
            return []
        atoms = _by_number(products)
        changes = {number: list(_changes(atoms[number])) for number in _far(reactants, products)}
        numbers = [number for number, possible in changes.items() if possible]
        if not numbers:
            return []
        new = 1 + max(*atoms, *_by_number(reactants))
        found: dict[str, None] = {}
        for _ in range(2 * count):
            chosen = random.sample(numbers, min(random.choice(_COUNTS), len(numbers)))
            drawn = {number: random.choice(changes[number]) for number in chosen}
            changed = [_changed(side, drawn, new) for side in (reactants, products)]
            if None not in changed:
                found[f"{changed[0]}>{agents}>{changed[1]}"] = None
            if len(found) == count:
                break
    return list(found)


def _by_number(molecule: Chem.Mol) -> dict[int, Chem.Atom]:
    return {atom.GetAtomMapNum(): atom for atom in molecule.GetAtoms() if atom.GetAtomMapNum()}


def _far(reactants: Chem.Mol, products: Chem.Mol) -> list[int]:
    """Map numbers of the atoms that are far from all that change, on both sides."""
    before, after = _by_number(reactants), _by_number(products)
    for side, found in ((reactants, before), (products, after)):
        if sum(atom.GetAtomMapNum() > 0 for atom in side.GetAtoms()) > len(found):
            return []
    same = {
        number
        for number in before.keys() & after.keys()
        if _surroundings(before[number]) == _surroundings(after[number])
    }
    far = set(same)
    for side in (reactants, products):
        own = [atom.GetAtomMapNum() for atom in side.GetAtoms()]
        # Of the reactants, an atom that the products lack changes only its neighbours.
        near = {i for i, n in enumerate(own) if n not in same and (side is products or n in after)}
        for _ in range(1, _DISTANCE):
            beside = (side.GetAtomWithIdx(atom).GetNeighbors() for atom in near)
            near |= {atom.GetIdx() for atoms in beside for atom in atoms}
        far -= {own[atom] for atom in near}
    return sorted(far)


def _surroundings(atom: Chem.Atom) -> tuple[object, ...]:
    bonds = sorted(
        (bond.GetOtherAtom(atom).GetAtomMapNum(), str(bond.GetBondType()))
        for bond in atom.GetBonds()
    )
    return atom.GetFormalCharge(), atom.GetTotalNumHs(), atom.GetIsAromatic(), bonds


def _changes(atom: Chem.Atom) -> Iterator[_Change]:
    """What may become of an atom; what is frequent comes twice."""
    element, hydrogens = atom.GetSymbol(), atom.GetTotalNumHs()
    if atom.GetFormalCharge() or atom.GetNumRadicalElectrons():
        return
    if atom.GetIsAromatic():
        if element == "C" and hydrogens == 1:
            yield from _GROUPS
            yield 7
        if element == "N" and not hydrogens and atom.GetDegree() == 2:
            yield 6
    elif atom.GetDegree() == 1 and atom.GetNeighbors()[0].GetDegree() > 1:
        if element in ("F", "Cl"):
            yield from (17 if element == "F" else 9, 6, None) * 2
        if element == "Br":
            yield 17
        if element == "C" and hydrogens == 3:
            yield from ("C", None, "C")
            if atom.GetNeighbors()[0].GetIsAromatic():
                yield from (9, 17)
    elif element == "C" and hydrogens == 2 and atom.IsInRing():
        yield "C"


def _changed(side: Chem.Mol, changes: dict[int, _Change], new: int) -> str | None:
    """The SMILES of a changed side; None if a change would make it invalid or lose its stereo.

    new: the first map number of added atoms.
    """
    molecule = Chem.RWMol(side)
    for step, (number, change) in enumerate(changes.items()):
        atom = _by_number(molecule)[number]
        if isinstance(change, str):
            count = molecule.GetNumAtoms()
            molecule.InsertMol(Chem.MolFromSmiles(change))
            for place in range(count, molecule.GetNumAtoms()):
                added = molecule.GetAtomWithIdx(place)
                added.SetAtomMapNum(new + 10 * step + place - count)
            molecule.AddBond(atom.GetIdx(), count, Chem.BondType.SINGLE)
            atom.SetNumExplicitHs(max(0, atom.GetNumExplicitHs() - 1))
        elif change is None:
            (neighbour,) = atom.GetNeighbors()
            if neighbour.GetChiralTag() != Chem.ChiralType.CHI_UNSPECIFIED or any(
                bond.GetStereo() != Chem.BondStereo.STEREONONE for bond in neighbour.GetBonds()
            ):
                return None
            if neighbour.GetNoImplicit():
                neighbour.SetNumExplicitHs(neighbour.GetNumExplicitHs() + 1)
            molecule.RemoveAtom(atom.GetIdx())
        else:
            atom.SetAtomicNum(change)
            atom.SetNumExplicitHs(0)
            atom.SetNoImplicit(False)
    try:
        Chem.SanitizeMol(molecule)
    except ValueError:
        return None
    return str(Chem.MolToSmiles(molecule, canonical=False))
