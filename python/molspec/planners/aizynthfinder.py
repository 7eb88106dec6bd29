"""An expansion strategy and a filter for AiZynthFinder 4.4, named in its configuration.

expansion:
  molspec:
    type: molspec.planners.aizynthfinder.ExpansionStrategy
    model: retro
    n_best: 10
filter:
  molspec:
    type: molspec.planners.aizynthfinder.FilterStrategy
    model: product
stock:
  own: stock.inchikeys
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from aizynthfinder.chem import SmilesBasedRetroReaction, TreeMolecule
from aizynthfinder.chem.reaction import RetroReaction
from aizynthfinder.context.config import Configuration
from aizynthfinder.context.policy import expansion_strategies, filter_strategies
from aizynthfinder.utils.exceptions import RejectionException
from rdkit import Chem

from molspec.planners.expander import AMONG, Expander
from molspec.text import canonicalise
from molspec.text.correspondence import corresponding_atoms


class Reaction(SmilesBasedRetroReaction):
    """A reaction whose reactants carry the atom maps of the product.

    `freeze_bonds` and `break_bonds` follow the target's bonds by these. Atoms correspond by common
    substructures, because the model gives no maps.
    """

    def _apply(self) -> tuple[tuple[TreeMolecule, ...], ...]:
        outcomes: tuple[tuple[TreeMolecule, ...], ...] = super()._apply()
        for reactants in outcomes:
            _carry_maps(self.mol, reactants)
        return outcomes


def _carry_maps(product: TreeMolecule, reactants: Sequence[TreeMolecule]) -> None:
    """Give atoms of the reactants the maps of the product, and others larger ones of their own.

    Larger than all of the target, whose other atoms may be in another branch.
    """
    target = product
    while target.parent is not None:
        target = target.parent
    numbers, of_target = (
        [atom.GetAtomMapNum() for atom in each.mapped_mol.GetAtoms()] for each in (product, target)
    )
    fresh = count(1 + max(numbers + of_target))
    same = corresponding_atoms([each.mapped_mol for each in reactants], product.mapped_mol)
    maps = {place: numbers[atom] for atom, place in same.items()}
    for index, reactant in enumerate(reactants):
        for atom in reactant.mapped_mol.GetAtoms():
            atom.SetAtomMapNum(maps.get((index, atom.GetIdx())) or next(fresh))
        reactant.mapped_smiles = Chem.MolToSmiles(reactant.mapped_mol)


def _loaded(policy: Any, kind: str, usual: int, loading: dict[str, Any]) -> tuple[int, Expander]:
    """The number of answers, `usual` if none is given, and the model that gives them."""
    model, n_best = loading.pop("model"), int(loading.pop("n_best", usual))
    policy._logger.info(f"Loading {kind} policy model from {model} to {policy.key}")
    return n_best, Expander.load(model, **loading)


class ExpansionStrategy(expansion_strategies.ExpansionStrategy):
    """Predicts reactants; siblings that a search expands next share a batch.

    model: a bundled model, or a checkpoint of any format that molspec reads. n_best: reactions a
    molecule. The others are those of `Expander.load`: device, dtype, options, mass, keep_salts,
    cache_file and cache_size.

    Priors are the answers' probabilities, normalised over the list; `policy_probability` of a
    reaction is the same, `log_prob` the model's own. `reset_cache` does not clear the cache.
    Reactants carry the product's atom maps, which `freeze_bonds` and `break_bonds` need.
    """

    _required_kwargs = ("model",)

    def __init__(self, key: str, config: Configuration, **kwargs: Any) -> None:
        super().__init__(key, config, **kwargs)
        self._n_best, self.expander = _loaded(self, "expansion", 10, kwargs)

    def get_actions(
        self,
        molecules: Sequence[TreeMolecule],
        cache_molecules: Sequence[TreeMolecule] | None = None,
    ) -> tuple[list[RetroReaction], list[float]]:
        """All reactions of all molecules, and their priors."""
        queries = [molecule.smiles for molecule in molecules]
        along = [molecule.smiles for molecule in cache_molecules or ()]
        results = self.expander.predict(queries, self._n_best, along)
        self.expander.report(queries, results, self._logger.warning)
        actions: list[RetroReaction] = []
        priors: list[float] = []
        for molecule, result in zip(molecules, results, strict=True):
            ranked = zip(result.predictions, result.shares, strict=True)
            for rank, (found, prior) in enumerate(ranked):
                if found.canonical is None:  # not a molecule
                    continue
                metadata = {
                    "policy_probability": prior,
                    "policy_probability_rank": rank,
                    "policy_name": self.key,
                    "log_prob": found.log_prob,
                }
                made = Reaction(molecule, metadata=metadata, reactants_str=found.canonical)
                actions.append(made)
                priors.append(prior)
        return actions, priors


class FilterStrategy(filter_strategies.FilterStrategy):
    """Rejects a reaction unless a forward model finds its product among its likeliest answers.

    model: as for `ExpansionStrategy`, of task "product". n_best: answers among which the product
    must be; the others are those of `Expander.load`. A search with it solves fewer targets (45 of
    58); `molspec plan --check` asks after the search instead.
    """

    _required_kwargs = ("model",)

    def __init__(self, key: str, config: Configuration, **kwargs: Any) -> None:
        super().__init__(key, config, **kwargs)
        self._n_best, self.expander = _loaded(self, "filter", AMONG, kwargs)

    def apply(self, reaction: RetroReaction) -> None:
        """Raise RejectionException if the product is none of the answers."""
        product = canonicalise(reaction.mol.smiles) or "not a molecule"
        for reactants in reaction.reactants:
            query = ".".join(molecule.smiles for molecule in reactants)
            (result,) = self.expander.predict([query], self._n_best)
            self.expander.report([query], [result], self._logger.warning)
            if result.answer_with(product):
                return
        raise RejectionException(
            f"{reaction} was filtered out: {self.key} does not find {product} among its first "
            f"{self._n_best} answers"
        )
