"""Follows the bonds of a target that its routes keep or break.

A molecule's `identifier` has those that it still has, as in "keep:3-4 break:5-6", by its own atoms.
So a search tells molecules apart that differ only in these.
"""

from functools import lru_cache

from syntheseus import Molecule

from molspec.common.console import quoted
from molspec.planners.routes import Route, SearchLimits, bond_pairs
from molspec.text import check_text, correspondence, quiet, read_smiles

_KEEP, _BREAK = "keep", "break"


def marked(target: str, query: str, limits: SearchLimits) -> Molecule:
    """The target, in canonical SMILES, with the bonds of the limits, by the atoms of the query.

    Raises ValueError if it does not have such a bond.
    """
    if not (limits.keep_bonds or limits.break_bonds):
        return _molecule(target, None)
    labels = []
    with quiet():
        whole, own = read_smiles(check_text(query)), read_smiles(target)
    if whole is None or own is None:
        raise ValueError("RDKit cannot read its SMILES again: its bonds cannot be followed")
    found = whole.GetSubstructMatch(own, useChirality=True) or whole.GetSubstructMatch(own)
    maps = [atom.GetAtomMapNum() for atom in whole.GetAtoms()]
    place = {(maps[at] if any(maps) else at): index for index, at in enumerate(found)}
    for aim, text in ((_KEEP, limits.keep_bonds), (_BREAK, limits.break_bonds)):
        for pair in bond_pairs(text):
            if twice := [number for number in pair if number and maps.count(number) > 1]:
                raise ValueError(f"{aim}_bonds is {quoted(text)}: {twice[0]} maps several atoms")
            ends = [place[number] for number in pair if number in place]
            if len(ends) < 2 or own.GetBondBetweenAtoms(*ends) is None:
                numbered = "atom maps" if any(maps) else "atoms, counted from 0"
                raise ValueError(
                    f"{aim}_bonds is {quoted(text)}: expected bonds between the target's {numbered}"
                )
            labels.append(_label(aim, *ends))
    return _molecule(target, labels)


def must_be_made(molecule: Molecule) -> bool:
    """Whether it still has a bond to break, so that buying it does not help."""
    return _BREAK in (molecule.identifier or "")


@lru_cache(1 << 14)
def reactants_of(product: Molecule, reactants: tuple[str, ...]) -> tuple[Molecule, ...] | None:
    """The reactants of a step with the bonds that they have; None if it breaks one to keep.

    A bond is kept if its atoms correspond to bonded ones of one reactant.
    """
    labels = str(product.identifier).split()
    kept: list[list[str]] = [[] for _ in reactants]
    if labels:
        found = correspondence.corresponding_step(product.smiles, reactants)
        if found is None:  # what RDKit cannot read again
            return None
        _, parts, same = found
        for label in labels:
            aim, _, bond = label.partition(":")
            (first, a), (second, b) = (same.get(int(atom), (-1, -1)) for atom in bond.split("-"))
            if first == second >= 0 and parts[first].GetBondBetweenAtoms(a, b) is not None:
                kept[first].append(_label(aim, a, b))
            elif aim == _KEEP:
                return None
    return tuple(map(_molecule, reactants, kept))


def is_followed(target: Molecule, route: Route) -> bool:
    """Whether a route keeps and breaks the bonds, in each place of a molecule of several places.

    Not if it makes a molecule from itself, as by a bond that it breaks and forms again.
    """
    if target.identifier is None:
        return True
    needed = {target.smiles: {target}}
    made = {step.product for step in route.steps}
    for step in reversed(route.steps):
        for product in needed.pop(step.product, ()):
            if (reactants := reactants_of(product, step.reactants)) is None:
                return False
            for reactant in reactants:
                needed.setdefault(reactant.smiles, set()).add(reactant)
    left = [each for molecules in needed.values() for each in molecules]
    return not any(must_be_made(each) or each.smiles in made for each in left)


def _label(aim: str, *ends: int) -> str:
    return f"{aim}:{min(ends)}-{max(ends)}"


def _molecule(smiles: str, labels: list[str] | None) -> Molecule:
    identifier = None if labels is None else " ".join(sorted(set(labels)))
    return Molecule(smiles, identifier, canonicalize=False, make_rdkit_mol=False)
