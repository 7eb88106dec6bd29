"""Which bonds of a target the steps of a route make.

Routes that make the same bonds differ only in groups that leave, protect or activate. The model
gives no atom maps: bonds are followed by the largest common substructures of product and reactants.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rdkit import Chem

from molspec.planners.routes import Route, Step
from molspec.text.correspondence import bonds_made, corresponding_step


@lru_cache(1 << 12)
def disconnections(route: Route) -> tuple[Any, ...]:
    """The bonds of the target that a route makes: the last ones, and below them the earlier ones.

    Steps that make none, such as a deprotection, do not count, unless no step does: then the atoms
    count whose groups or hydrogens change. Equivalent atoms of the target count as the same.
    """
    last = route.steps[-1] if route.steps else None
    if last is None or not (found := corresponding_step(last.product, last.reactants)):
        return (last,)
    classes = dict(enumerate(Chem.CanonicalRankAtoms(found[0], breakTies=False)))
    changed: set[tuple[int, ...]] = set()
    made = _made(last.product, classes, {step.product: step for step in route.steps}, changed)
    return made or (*sorted(changed),)


def _made(
    molecule: str, classes: Mapping[int, int], steps: Mapping[str, Step], changed: set[Any]
) -> tuple[Any, ...]:
    """The bonds of the last step that makes some, with those that its reactants' steps make.

    classes: of the target's atoms, by the molecule's. changed: gets those that lose something.
    """
    if (step := steps.get(molecule)) is None:
        return ()
    if (found := corresponding_step(step.product, step.reactants)) is None:
        return (step,)
    whole, parts, same = found
    own: list[dict[int, int]] = [{} for _ in parts]
    for theirs in classes.keys() & same.keys():
        index, ours = same[theirs]
        own[index][ours] = classes[theirs]
        before, after = parts[index].GetAtomWithIdx(ours), whole.GetAtomWithIdx(theirs)
        lost = before.GetDegree() - after.GetDegree()
        hydrogens = before.GetTotalNumHs() - after.GetTotalNumHs()
        if lost or hydrogens:
            changed.add((classes[theirs], lost, hydrogens))
    earlier = {product: each for product, each in steps.items() if product != molecule}
    ways = (_made(*pair, earlier, changed) for pair in zip(step.reactants, own, strict=True))
    below = sorted((each for way in ways for each in way), key=repr)
    bonds = bonds_made(*found, classes)
    return ((tuple(bonds), *below),) if bonds else tuple(below)
