"""Searches for routes, by Syntheseus: nothing here searches by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any

from omegaconf import OmegaConf
from syntheseus import Molecule
from syntheseus.cli.search import (
    SearchAlgorithmClass,
    SearchAlgorithmConfig,
    search_algorithm_config_to_kwargs,
)
from syntheseus.search.algorithms.best_first.retro_star import RetroStarSearch
from syntheseus.search.algorithms.mcts.molset import MolSetMCTS
from syntheseus.search.analysis.route_extraction import iter_routes_cost_order
from syntheseus.search.mol_inventory import SmilesListInventory

from molspec.files import Query
from molspec.planners.routes import Plan, Route, Step
from molspec.planners.stock import Stock
from molspec.planners.syntheseus import BackwardModel
from molspec.text import canonical_query

#: Nodes of a search's graph before its routes are counted again, as a multiple.
_GROWTH = 1.25
#: Seconds that counting, and taking routes out at the end, may take.
_COUNTING, _TAKING = 0.05, 2.0


@dataclass(frozen=True)
class Limits:
    """When a search ends: with so many routes, after so long, or after so many expansions."""

    routes: int = 3
    seconds: float = 10.0
    expansions: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("routes", 1), ("seconds", 0), ("expansions", 1)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise ValueError(f"{name} is {value}: expected at least {least}")


class _Stopping:
    """A search that ends when it has enough routes, and remembers when it had the first."""

    wanted = 1

    def should_stop_search(self, graph: Any) -> bool:
        """Whether it is time, or there are enough routes."""
        if super().should_stop_search(graph):  # type: ignore[misc]
            return True
        if not graph.root_node.has_solution:
            return False
        if self.first is None:
            self.first = perf_counter()
        if self.wanted > 1 and len(graph) < self._next_count:
            return False
        self._next_count = _GROWTH * len(graph)
        return sum(1 for _ in _routes(graph, self.wanted, _COUNTING)) >= self.wanted

    def begin(self, wanted: int) -> None:
        """Forget the search before."""
        self.wanted, self.first, self._next_count = wanted, None, 0.0
        self.reset()  # type: ignore[attr-defined]

    first: float | None
    _next_count: float


class _RetroStar(_Stopping, RetroStarSearch):
    pass


class _Mcts(_Stopping, MolSetMCTS):
    pass


#: Retro* (Chen et al. 2020) and Monte Carlo tree search over sets of molecules, as Syntheseus has
#: them, with its own settings.
_ALGORITHMS = {
    "retro-star": (_RetroStar, SearchAlgorithmClass.retro_star),
    "mcts": (_Mcts, SearchAlgorithmClass.mcts),
}
ALGORITHMS = tuple(_ALGORITHMS)


class Planner:
    """Finds routes from a stock.

    stock: canonical SMILES; plans have the names of a `Stock`.
    n_best: reactions that a molecule is given.

    Raises ValueError for an unknown algorithm.
    """

    def __init__(
        self,
        model: BackwardModel,
        stock: Iterable[str],
        limits: Limits,
        algorithm: str = "retro-star",
    ) -> None:
        if algorithm not in _ALGORITHMS:
            raise ValueError(f"algorithm is {algorithm!r}: expected one of {', '.join(ALGORITHMS)}")
        kind, name = _ALGORITHMS[algorithm]
        config = SearchAlgorithmConfig(search_algorithm=name, time_limit_s=limits.seconds)
        if limits.expansions is not None:
            config.limit_reaction_model_calls = limits.expansions
        stock = stock if isinstance(stock, Stock) else Stock.fromkeys(stock, "")
        self.limits = limits
        self._model = model
        self._stock = stock
        self._search: Any = kind(
            reaction_model=model,
            mol_inventory=SmilesListInventory(list(stock), canonicalize=False),
            **search_algorithm_config_to_kwargs(OmegaConf.structured(config)),
        )

    def plans(self, queries: Iterable[Query], done: int = 0) -> Iterator[Plan]:
        """Plan for every target in their order; `done` came before."""
        for number, query in enumerate(queries, start=done + 1):
            yield self.plan(query, number)

    def plan(self, query: Query, number: int = 1) -> Plan:
        """Search for routes; a target that is no molecule gets a plan with `error`."""
        try:
            if query.error is not None:
                raise ValueError(query.error)
            target = canonical_query(query.smiles)
        except ValueError as error:
            return Plan(number, query, error=str(error))
        search = self._search
        search.begin(self.limits.routes)
        began = perf_counter()
        graph, _ = search.run_from_mol(Molecule(target))
        seconds = perf_counter() - began
        first = search.first
        routes = tuple(_taken(graph, target, self.limits.routes))
        bought = (leaf for route in routes for leaf in route.leaves or (target,))
        return Plan(
            number,
            query,
            routes,
            self._model.num_calls(),
            seconds,
            None if first is None else first - began,
            {leaf: name for leaf in bought if (name := self._stock.get(leaf))},
        )


def _taken(graph: Any, target: str, count: int) -> Iterator[Route]:
    """The likeliest routes of a graph, each once."""
    found: dict[frozenset[str], Route] = {}
    for nodes in _routes(graph, 4 * count, _TAKING):
        reactions = graph.to_synthesis_graph(nodes).nodes() if len(nodes) > 1 else ()
        steps = {
            reaction.product.smiles: Step(
                reaction.product.smiles,
                tuple(molecule.smiles for molecule in reaction.reactants),
                reaction.metadata["log_probability"],
            )
            for reaction in reactions
        }
        route = Route.of(target, steps)
        found.setdefault(frozenset(step.reaction for step in route.steps), route)
    yield from islice(sorted(found.values(), key=lambda route: -route.log_prob), count)


def _routes(graph: Any, count: int, seconds: float) -> Iterator[Any]:
    for node in graph.nodes():
        node.data.setdefault("route_cost", node.data.get("retro_star_rxn_cost", 1.0))
    return iter_routes_cost_order(graph, max_routes=count, max_time_s=seconds)  # type: ignore[no-any-return]
