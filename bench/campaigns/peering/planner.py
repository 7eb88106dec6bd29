"""The queries of a route planner: one molecule after another, each a reactant of an answer."""

from __future__ import annotations

from collections.abc import Sequence

from molspec import Model

#: Molecules that a planner expands for one target.
_MOLECULES = 8
#: Molecules with SMILES of at most so many characters are taken to be purchasable.
_PURCHASABLE = 12


def molecules(model: Model, targets: Sequence[str], count: int) -> list[str]:
    """The first `count` molecules: targets, the reactants of their best answers, and so on."""
    expanded: list[str] = []
    for target in targets:
        waiting, route = [target], 0
        while waiting and route < _MOLECULES and len(expanded) < count:
            molecule = waiting.pop(0)
            if molecule in expanded:
                continue
            expanded.append(molecule)
            route += 1
            (result,) = model.predict([molecule], canonical_queries=False)
            if result.predictions:
                parts = result.predictions[0].smiles.split(".")
                waiting += [part for part in parts if len(part) > _PURCHASABLE]
    return expanded
