"""A process that plans with one engine: reads stock, seconds and target, writes a search's costs.

python bench/campaigns/peering/searching.py FOLDER ENGINE SETTING N_BEST ANY_REACTION
"""

import os

# Must come before imports that start threads.
os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL")})

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from time import process_time
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])

from omegaconf import OmegaConf
from rdkit.rdBase import DisableLog
from syntheseus import BackwardReactionModel, Molecule, SingleProductReaction
from syntheseus.cli.search import SearchAlgorithmConfig, search_algorithm_config_to_kwargs
from syntheseus.reaction_prediction.utils.inference import process_raw_smiles_outputs_backwards
from syntheseus.search.algorithms.best_first.retro_star import RetroStarSearch
from syntheseus.search.analysis.route_extraction import iter_routes_cost_order
from syntheseus.search.mol_inventory import SmilesListInventory

from peering.engines import ENGINES, Peer

#: An atom of SMILES: its symbol, in brackets or not.
_ATOM = re.compile(r"\[\d*([A-Za-z][a-z]?)[^\]]*\]|(Br|Cl|[BCNOPSFIbcnops])")


class PeerModel(BackwardReactionModel):  # type: ignore[misc]
    """A peer, wrapped as Syntheseus wraps models."""

    def __init__(self, peer: Peer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._peer = peer

    def _get_reactions(
        self, inputs: list[Molecule], num_results: int
    ) -> list[Sequence[SingleProductReaction]]:
        scored = [self._scored(molecule.smiles, num_results) for molecule in inputs]
        return [
            process_raw_smiles_outputs_backwards(
                molecule,
                [text for text, _ in answers],
                [
                    {"probability": math.exp(score), "log_probability": score}
                    for _, score in answers
                ],
            )
            for molecule, answers in zip(inputs, scored, strict=True)
        ]

    def _scored(self, smiles: str, num_results: int) -> list[tuple[str, float]]:
        """The answers for a molecule; none if the vocabulary lacks one of its tokens."""
        try:
            (answers,) = self._peer.scored([smiles], num_results)
        except KeyError:
            return []
        return answers


class Search(RetroStarSearch):  # type: ignore[misc]
    """Syntheseus' Retro*, which ends with the first route or at a limit of processor time.

    Unless `any_reaction`, it leaves out reactions whose reactants lack atoms of the product.
    """

    limit: float
    began: float
    first: float | None
    any_reaction: bool

    def should_stop_search(self, graph: Any) -> bool:
        now = process_time() - self.began
        if graph.root_node.has_solution and self.first is None:
            self.first = now
        return self.first is not None or now >= self.limit

    def _filter_reactions(self, reactions: Any, node: Any, graph: Any) -> list[Any]:
        found: list[Any] = super()._filter_reactions(reactions, node, graph)
        return found if self.any_reaction else [each for each in found if has_all_atoms(each)]


def has_all_atoms(reaction: SingleProductReaction) -> bool:
    """Whether the reactants have every heavy atom of the product."""
    made: Counter[str] = Counter()
    for molecule in reaction.reactants:
        made.update(atoms(molecule.smiles))
    return atoms(reaction.product.smiles) <= made


@lru_cache(4096)
def atoms(smiles: str) -> Counter[str]:
    """Heavy atoms of a SMILES, by element."""
    found = (bracketed or plain for bracketed, plain in _ATOM.findall(smiles))
    return Counter(symbol.capitalize() for symbol in found if symbol != "H")


def model_of(folder: Path, name: str, setting: str, n_best: int) -> BackwardReactionModel:
    """The model: molspec in the adapter that it ships, or a peer in `PeerModel`."""
    kwargs: dict[str, Any] = {
        "default_num_results": n_best,
        "use_cache": True,
        "remove_product_in_reactants": True,
    }
    if name == "molspec":
        import torch

        from molspec.planners.syntheseus import BackwardModel

        torch.set_num_threads(1)
        return BackwardModel(model_dir=folder / "molspec", dtype=setting, **kwargs)
    return PeerModel(ENGINES[name](folder, setting, 1), **kwargs)


def timed(model: BackwardReactionModel) -> list[float]:
    """Make a model record the seconds of each of its calls."""
    seconds: list[float] = []
    reactions = model._get_reactions

    def recorded(inputs: list[Molecule], num_results: int) -> Any:
        began = process_time()
        found = reactions(inputs=inputs, num_results=num_results)
        seconds.append(process_time() - began)
        return found

    model._get_reactions = recorded
    return seconds


@cache
def forward() -> Any:
    """The model of products that is asked about routes, after the search."""
    from molspec.planners.syntheseus import ForwardModel

    return ForwardModel()


def is_confirmed(graph: Any) -> bool:
    """Whether the forward model gives the product of each step of the likeliest route."""
    from molspec.planners.routes import Route, Step

    nodes = next(iter_routes_cost_order(graph, max_routes=1))
    reactions = [node.reaction for node in nodes if hasattr(node, "reaction")]
    steps = (
        Step(each.product.smiles, tuple(part.smiles for part in each.reactants), 0.0)
        for each in reactions
    )
    (route,) = forward().checked([Route(tuple(steps))])
    return route.confirmed is not False


def main() -> None:
    folder, name, setting, n_best, any_reaction = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of engines must not mix with the replies
    DisableLog("rdApp.*")  # messages about answers that are not molecules
    setting, _, value = setting.partition(", ")
    model = model_of(Path(folder), name, setting, int(n_best))
    seconds = timed(model)
    config = search_algorithm_config_to_kwargs(OmegaConf.structured(SearchAlgorithmConfig()))
    if value:
        from molspec.planners.syntheseus import HeavyAtomCost

        config["value_function"] = HeavyAtomCost(float(value.removesuffix(" nats")))

    @cache
    def search_of(stock: str) -> Search:
        inventory = SmilesListInventory.load_from_file(stock, canonicalize=False)
        return Search(reaction_model=model, mol_inventory=inventory, **config)

    model([Molecule("CC(=O)Nc1ccccc1")])  # warms up: no search pays for the loading
    for line in sys.stdin:
        stock, limit, target = json.loads(line)
        search = search_of(stock)
        search.limit, search.any_reaction = limit, bool(int(any_reaction))
        search.reset()
        seconds.clear()
        if name == "molspec":
            from molspec.prediction.cache import AnswerCache

            model.expander.cache = AnswerCache()
        search.first, search.began = None, process_time()
        graph, _ = search.run_from_mol(Molecule(target))
        reply = {
            "first": search.first,
            "seconds": process_time() - search.began,
            "model_seconds": sum(seconds),
            "expansions": model.num_calls(),
            "confirmed": None if search.first is None else is_confirmed(graph),
        }
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
