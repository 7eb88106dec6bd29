"""Finds reactants without a configuration that their product has, such as racemates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rdkit import Chem

from molspec.planners.routes import Route, Step
from molspec.text import quiet, read_smiles
from molspec.text.correspondence import corresponding_atoms


def with_racemates(route: Route) -> Route:
    """The route, whose steps name such reactants."""
    return Route(tuple(map(_marked, route.steps)))


@lru_cache(1 << 10)
def _marked(step: Step) -> Step:
    with quiet():
        read = [read_smiles(smiles) for smiles in (step.product, *step.reactants)]
        product, *reactants = [molecule for molecule in read if molecule is not None]
        if None in read:  # what RDKit cannot read again
            return step
        whole = set(_elements(product, specified=True))
        bare = [set(_elements(each, specified=False)) for each in reactants]
        if not whole or not any(bare):
            return step
        same = corresponding_atoms(reactants, product)
    lost = [frozenset(same[atom] for atom in atoms if atom in same) for atoms in whole]
    racemic = [
        smiles
        for index, smiles in enumerate(step.reactants)
        if any(frozenset((index, atom) for atom in atoms) in lost for atoms in bare[index])
    ]
    return replace(step, racemic=tuple(racemic))


def _elements(molecule: Any, specified: bool) -> Iterator[frozenset[int]]:
    """The centres and double bonds whose configuration is given, or is not, by their atoms."""
    for each in Chem.FindPotentialStereo(molecule):
        if (each.specified == Chem.StereoSpecified.Specified) == specified:
            if each.type == Chem.StereoType.Atom_Tetrahedral:
                yield frozenset([each.centeredOn])
            elif each.type == Chem.StereoType.Bond_Double:
                bond = molecule.GetBondWithIdx(each.centeredOn)
                yield frozenset([bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()])
