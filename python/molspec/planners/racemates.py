"""Finds reactants whose configuration is not that of their product, such as racemates."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rdkit import Chem

from molspec.planners.routes import Route, Step
from molspec.text import correspondence, quiet, read_smiles


def with_racemates(route: Route, flat: Callable[[str], str | None] = lambda _: None) -> Route:
    """The route, whose steps name such reactants.

    flat: a molecule without configuration if it is bought as a racemate, otherwise None.
    """
    leaves = {each: flat(each) or each for each in route.leaves}
    bought = ([leaves.get(each, each) for each in step.reactants] for step in route.steps)
    steps = tuple(_marked(step, *each) for step, each in zip(route.steps, bought, strict=True))
    others = tuple(with_racemates(each, flat) for each in route.alternatives)
    return replace(route, steps=steps, alternatives=others)


@lru_cache(1 << 10)
def _marked(step: Step, *bought: str) -> Step:
    with quiet():
        read = [read_smiles(smiles) for smiles in (step.product, *bought)]
        product, *reactants = [molecule for molecule in read if molecule is not None]
        if None in read:  # what RDKit cannot read again
            return step
        whole = set(_elements(product, specified=True))
        bare = [set(_elements(each, specified=False)) for each in reactants]
        if not whole or not any([*Chem.FindPotentialStereo(each)] for each in reactants):
            return step
        same = correspondence.corresponding_atoms(reactants, product, _is_turned)
    lost = [frozenset(same[atom] for atom in atoms if atom in same) for atoms in whole]
    racemic, turned = [], []
    for index, smiles in enumerate(step.reactants):
        if any(frozenset((index, atom) for atom in atoms) in lost for atoms in bare[index]):
            racemic.append(smiles)
        own = {ours: theirs for ours, (number, theirs) in same.items() if number == index}
        if _is_turned(reactants[index], product, own):
            turned.append(smiles)
    return replace(step, racemic=tuple(racemic), turned=tuple(turned))


def _elements(molecule: Any, specified: bool) -> Iterator[frozenset[int]]:
    """The centres and double bonds whose configuration is given, or is not, by their atoms."""
    for each in Chem.FindPotentialStereo(molecule):
        if (each.specified == Chem.StereoSpecified.Specified) == specified:
            if each.type == Chem.StereoType.Atom_Tetrahedral:
                yield frozenset([each.centeredOn])
            elif each.type == Chem.StereoType.Bond_Double:
                bond = molecule.GetBondWithIdx(each.centeredOn)
                yield frozenset([bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()])


def _is_turned(reactant: Any, product: Any, same: Mapping[int, int]) -> bool:
    """Whether an atom that keeps its neighbours has another configuration in the product.

    Geometry is compared, not its name, which changes with the groups around. same: atoms of the
    reactant by those of the product.
    """
    unknown = Chem.ChiralType.CHI_UNSPECIFIED
    for atom in product.GetAtoms():
        other = _untouched(atom, reactant, same)
        if other is None or unknown in (atom.GetChiralTag(), other.GetChiralTag()):
            continue
        order = [each.GetIdx() for each in other.GetNeighbors()]
        places = [order.index(same[each.GetIdx()]) for each in atom.GetNeighbors()]
        is_odd = sum(a > b for i, b in enumerate(places) for a in places[:i]) % 2 == 1
        has_other = (atom.GetChiralTag() != other.GetChiralTag()) != is_odd
        if has_other and not _may_be_swapped(atom, reactant, same):
            return True
    for bond in product.GetBonds():
        ends = [_untouched(end, reactant, same) for end in (bond.GetBeginAtom(), bond.GetEndAtom())]
        if None in ends or bond.GetStereo() <= Chem.BondStereo.STEREOANY:
            continue
        other = reactant.GetBondBetweenAtoms(*(end.GetIdx() for end in ends))
        if other.GetStereo() > Chem.BondStereo.STEREOANY:
            there = [*other.GetStereoAtoms()]
            differing = sum(same[each] not in there for each in bond.GetStereoAtoms())
            # Z and cis have even numbers.
            if (bond.GetStereo() + other.GetStereo() + differing) % 2:
                return True
    return False


def _untouched(atom: Any, reactant: Any, same: Mapping[int, int]) -> Any:
    """The atom of the reactant if it has the same neighbours and hydrogens, otherwise None."""
    if (place := same.get(atom.GetIdx())) is None:
        return None
    other = reactant.GetAtomWithIdx(place)
    found = {same.get(each.GetIdx()) for each in atom.GetNeighbors()}
    is_same = found == {each.GetIdx() for each in other.GetNeighbors()}
    return other if is_same and other.GetTotalNumHs() == atom.GetTotalNumHs() else None


def _may_be_swapped(atom: Any, reactant: Any, same: Mapping[int, int]) -> bool:
    """Whether two neighbours are alike, and the step touches one of them.

    So an amine opens the epoxide of epichlorohydrin at one CH2, and the other one closes it.
    """

    def traits(each: Any) -> tuple[object, ...]:
        return each.GetAtomicNum(), each.GetTotalNumHs(), each.GetHybridization()

    around = [*atom.GetNeighbors()]
    touched = [each for each in around if _untouched(each, reactant, same) is None]
    return any([*map(traits, around)].count(traits(each)) > 1 for each in touched)
