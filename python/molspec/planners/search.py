"""Searches for routes with the algorithms of Syntheseus."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, islice, product
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

from omegaconf import OmegaConf
from syntheseus import Bag, Molecule
from syntheseus.cli.search import (
    SearchAlgorithmClass,
    SearchAlgorithmConfig,
    search_algorithm_config_to_kwargs,
)
from syntheseus.search.algorithms.best_first.retro_star import RetroStarSearch
from syntheseus.search.algorithms.mcts.molset import MolSetMCTS
from syntheseus.search.graph.and_or import AndNode
from syntheseus.search.mol_inventory import BaseMolInventory

from molspec.common.console import lacks_memory, told
from molspec.files import Query, prepare_query, racemates
from molspec.planners.bonds import is_followed, marked, must_be_made, reactants_of
from molspec.planners.disconnections import disconnections
from molspec.planners.expander import Expander
from molspec.planners.racemates import with_racemates
from molspec.planners.routes import Plan, Route, SearchLimits, Step, arranged, listed
from molspec.planners.stock import Stock
from molspec.planners.syntheseus import BackwardModel, ForwardModel, HeavyAtomCost
from molspec.prediction.cache import AnswerCache
from molspec.prediction.model import Model
from molspec.prediction.results import ALL_DROPPED
from molspec.text import canonical_query, canonicalise

#: Steps in a row of Retro*; Syntheseus' own 5 hide routes of drugs.
_MAX_STEPS = 10
#: The likeliest routes that are compared, and the most alternatives that are kept of each.
_MOST_WAYS, _ALTERNATIVES = 100, 4
#: The growth of a search's graph before its routes are counted again.
_GROWTH = 1.25


class _Search:
    """A search that ends when it has enough routes, and whose result depends only on its inputs.

    Syntheseus iterates over sets of nodes, which hash by their address, and of molecules, which
    hash by a seed of the process. Here they are sorted in the order of their creation.
    """

    limits: SearchLimits
    first: float | None
    is_exhausted: bool
    _next_count: float

    def begin(self, limits: SearchLimits) -> None:
        """Drop the previous search."""
        self.limits, self.first, self._next_count = limits, None, 0.0
        self.is_exhausted = False
        self._forbidden = listed(limits.forbid, sides=2)
        self._numbers = count()
        self._open: list[Any] = []
        self.random_state = Random(0)
        self.reset()  # type: ignore[attr-defined]

    def set_node_values(self, nodes: Iterable[Any], graph: Any) -> list[Any]:
        """Set Syntheseus' values; return the changed nodes in the order of their creation."""
        nodes = list(nodes)
        for node in nodes:
            if "number" not in node.data:
                node.data["number"] = next(self._numbers)
                self._open.append(node)
        changed = super().set_node_values(nodes, graph)  # type: ignore[misc]
        return sorted(changed, key=lambda node: node.data["number"])

    def _filter_reactions(self, reactions: Any, node: Any, graph: Any) -> list[Any]:
        """The reactions that keep the bonds to keep, with what their reactants have of them."""
        reactions = super()._filter_reactions(reactions, node, graph)  # type: ignore[misc]
        if self._forbidden:
            reactions = [each for each in reactions if _text(each) not in self._forbidden]
        if graph.root_mol.identifier is None:
            return list(reactions)
        found = [(each, reactants_of(each.product, _smiles(each))) for each in reactions]
        return [
            type(each)(product=each.product, reactants=Bag(reactants), metadata=each.metadata)
            for each, reactants in found
            if reactants is not None
        ]

    def should_stop_search(self, graph: Any) -> bool:
        """Whether a limit is reached, or there are enough routes."""
        if self.is_exhausted or super().should_stop_search(graph):  # type: ignore[misc]
            return True
        if not graph.root_node.has_solution:
            return False
        if self.first is None:
            self.first = perf_counter()
        if len(graph) < self._next_count:
            return False
        self._next_count = _GROWTH * len(graph)
        return len(self.routes(graph)) == self.limits.routes

    def routes(self, graph: Any) -> list[Route]:
        """The likeliest routes of a graph that differ in disconnections, with alternatives."""
        nats = self.limits.nats
        every = {
            Route.of(graph.root_mol.smiles, {step.product: step for step in reversed(way)}): None
            for _, way in _ways(graph.root_node, graph, _MOST_WAYS, nats)
        }
        most = self.limits.max_steps or len(graph)
        fit = (each for each in every if each.depth <= most and is_followed(graph.root_mol, each))
        found = sorted(fit, key=lambda route: -route.log_prob)
        groups: dict[Any, list[Route]] = {}
        for route in found:
            if found[0].log_prob - route.log_prob <= nats:
                groups.setdefault(disconnections(route), []).append(route)
        entries = islice(groups.values(), self.limits.routes)
        return [replace(best, alternatives=tuple(more[:_ALTERNATIVES])) for best, *more in entries]


class _RetroStar(_Search, RetroStarSearch):
    """Until its first route it estimates what molecules cost; then 0 bounds better routes."""

    def begin(self, limits: SearchLimits) -> None:
        self.value_function = HeavyAtomCost()
        super().begin(limits)

    def set_node_values(self, nodes: Iterable[Any], graph: Any) -> list[Any]:
        changed = super().set_node_values(nodes, graph)
        if not (graph.root_node.has_solution and self.value_function.nats):
            return changed
        self.value_function.nats = 0.0
        every = list(graph.nodes())
        for node in every:
            if "reaction_number_estimate" in node.data:
                node.data["reaction_number_estimate"] = 0.0
        updated = {*changed, *self._run_retro_star_updates(every, graph)}
        return sorted(updated, key=lambda node: node.data["number"])

    def visit_node(self, node: Any, graph: Any) -> Any:
        """Expand the node, unless no route through a remaining node is probable enough.

        A node's value is a lower bound of a route's cost, and this one's is the lowest.
        """
        best = graph.root_node.data["retro_star_min_cost"]
        if node.data["retro_star_value"] > best + self.limits.nats:
            self.is_exhausted = True
            return []
        return super().visit_node(node, graph)


class _Mcts(_Search, MolSetMCTS):
    def should_stop_search(self, graph: Any) -> bool:
        """Also if no node is left to expand: Syntheseus would visit them until its time is over."""
        while self._open and not self.can_expand_node(self._open[-1], graph):
            self._open.pop()
        return super().should_stop_search(graph) or not self._open

    def _get_mols_to_expand(self, node: Any, graph: Any) -> list[Molecule]:
        return sorted(super()._get_mols_to_expand(node, graph))


class _Inventory(BaseMolInventory):
    """The stock with Syntheseus' interface; not copied, so that processes share it.

    more: molecules that it sells beside the stock. avoided: those that it does not sell.
    """

    def __init__(self, stock: Stock, more: frozenset[str]) -> None:
        self._stock, self._more = stock, more
        self.avoided: frozenset[str] = frozenset()

    def is_purchasable(self, mol: Molecule) -> bool:
        """Whether the stock has the molecule, and buying it helps."""

        def among(given: frozenset[str]) -> bool:
            return any(self._stock.is_same(mol.smiles, each) for each in given)

        is_sold = (mol.smiles in self._stock or among(self._more)) and not among(self.avoided)
        return is_sold and not must_be_made(mol)


#: Syntheseus' Retro* (Chen et al. 2020) and Monte Carlo tree search over sets of molecules, with
#: its settings but for the steps in a row and the value function of Retro*.
_ALGORITHMS = {
    "retro-star": (_RetroStar, SearchAlgorithmClass.retro_star),
    "mcts": (_Mcts, SearchAlgorithmClass.mcts),
}
ALGORITHMS = tuple(_ALGORITHMS)


class Planner:
    """Finds routes from a stock.

    model: with `keep_salts`, salts and mixtures are searched for unchanged, not the molecule.
    stock: canonical SMILES; plans have the names of a `Stock`.
    deuterium_as_hydrogen: for a model whose vocabulary lacks deuterium.
    forward: a model of products, asked for each step of the routes found.

    Raises ValueError for an unknown algorithm.
    """

    def __init__(
        self,
        model: BackwardModel,
        stock: Iterable[str],
        limits: SearchLimits,
        algorithm: str = "retro-star",
        deuterium_as_hydrogen: bool = False,
        forward: ForwardModel | None = None,
    ) -> None:
        if algorithm not in _ALGORITHMS:
            raise ValueError(f"algorithm is {algorithm!r}: expected one of {', '.join(ALGORITHMS)}")
        kind, name = _ALGORITHMS[algorithm]
        config = SearchAlgorithmConfig(search_algorithm=name, time_limit_s=limits.seconds)
        if limits.expansions is not None:
            config.limit_reaction_model_calls = limits.expansions
        if limits.max_steps is not None:
            config.mcts_config.max_expansion_depth = limits.max_steps
        in_a_row = limits.max_steps or _MAX_STEPS
        config.retro_star_config.max_expansion_depth = 2 * in_a_row  # with reactions
        stock = stock if isinstance(stock, Stock) else Stock(stock)
        self.limits = limits
        self._forward = forward
        self._hydrogen = deuterium_as_hydrogen and model.expander.model.lacks_deuterium
        self._model = model
        self._stock = stock
        self._inventory = _Inventory(stock, listed(limits.buy))
        self._search: Any = kind(
            reaction_model=model,
            mol_inventory=self._inventory,
            **search_algorithm_config_to_kwargs(OmegaConf.structured(config)),
        )

    def plan(self, query: Query, number: int = 1) -> Plan:
        """Search for routes; a target that cannot be planned gets a plan with `error`.

        A salt is looked for in the stock as it stands, then its molecule without counter-ions.
        """
        try:
            return self._plan(query, number)
        except Exception as error:
            if lacks_memory(error):
                raise
            return Plan(number, query, error=told(error, (ValueError,)))

    def _plan(self, query: Query, number: int) -> Plan:
        limits, stock = self.limits, self._stock
        try:
            root, avoided, note = self._root(query)
        except ValueError as error:
            return Plan(number, query, error=str(error))
        target, search = root.smiles, self._search
        self._inventory.avoided = avoided
        search.begin(limits)
        began = perf_counter()
        graph, _ = search.run_from_mol(root)
        seconds = perf_counter() - began
        found = [with_racemates(route, stock.racemate) for route in search.routes(graph)]
        if self._forward is not None:
            found = self._forward.checked(found)
        routes = tuple(arranged(found, limits.sort, self._stock.cost))
        if not routes and self._model.num_calls():  # that it cannot read the target, if so
            (answer,) = self._model.expander.predict([target], self._model.default_num_results)
            if answer.error not in (None, ALL_DROPPED):
                return Plan(number, query, error=answer.error, note=note)
        lacked, attempt = ((), None) if routes else _best_attempt(graph, stock)
        shown = (*routes, attempt) if attempt else routes
        every = [each for route in shown for each in (route, *route.alternatives)]
        bought = [leaf for route in every for leaf in route.leaves]
        told = [leaf for leaf in bought if leaf not in stock and leaf not in lacked]  # by `buy`
        return Plan(
            number,
            query,
            routes,
            self._model.num_calls(),
            seconds,
            None if search.first is None else search.first - began,
            dict.fromkeys(told, "counts as purchasable")
            | {leaf: name for leaf in bought if (name := stock.get(leaf))},
            prices={leaf: price for leaf in bought if (price := self._stock.price(leaf))},
            bought={leaf: other for leaf in bought if (other := self._stock.bought(leaf))},
            stopped="" if routes else self._why(seconds),
            missing=lacked,
            attempt=attempt,
            min_share=limits.min_share,
            note=note,
        )

    def _root(self, query: Query) -> tuple[Molecule, frozenset[str], str]:
        """The molecule to search for, with the bonds to keep and to break.

        Also the molecules that are not to be bought, and what is told of the target.

        Raises ValueError, saying why, if it cannot be planned.
        """
        limits, stock = self.limits, self._stock
        racemate = racemates.read_racemate(query.smiles)
        whole = canonicalise(query.smiles.strip()) if racemate is None else racemate.decoded
        in_stock = whole in stock and not limits.exclude_target
        main = not (self._model.expander.keep_salts or in_stock)
        prepared = prepare_query(query, main, self._hydrogen and not in_stock)
        if prepared.error is not None:
            raise ValueError(prepared.error)
        target = canonical_query(prepared.decoded)
        if ">" in target:
            raise ValueError("a side of a reaction: expected a molecule")
        root = marked(target, query.smiles.partition(" |")[0], limits)
        sold = "" if racemate or not stock.racemate(target) else stock.bought(target)
        alone = {target} if limits.exclude_target or sold else set()
        told = (prepared.note, sold and f"in stock only as {sold}", limits.aims)
        return root, listed(limits.avoid) | alone, "; ".join(filter(None, told))

    def _why(self, seconds: float) -> str:
        """Why the search ended without a route."""
        if self.limits.expansions is not None and self._model.num_calls() >= self.limits.expansions:
            return "out of expansions"
        if seconds >= self.limits.seconds:
            return "out of time"
        return "nothing left to expand"


def planner_of(
    model: Model,
    stock: Iterable[str],
    limits: SearchLimits,
    n_best: int = 10,
    algorithm: str = "retro-star",
    forward: Model | None = None,
    *,
    cache: Path | None = None,
    keep_salts: bool = False,
    deuterium_as_hydrogen: bool = False,
) -> Planner:
    """A planner of loaded models; cache: a file of their answers, as of `AnswerCache`."""
    expander = Expander(model, cache=AnswerCache(path=cache), keep_salts=keep_salts)
    backward = BackwardModel(expander=expander, default_num_results=n_best, use_cache=True)
    checker = None
    if forward is not None:
        checker = ForwardModel(expander=Expander(forward, cache=AnswerCache(path=cache)))
    return Planner(backward, stock, limits, algorithm, deuterium_as_hydrogen, checker)


def _best_attempt(graph: Any, stock: Stock) -> tuple[tuple[str, ...], Route | None]:
    """What is not for sale of the attempt that lacks least, and its steps, if it has any."""
    *_, lacked, steps = _attempt(graph.root_node, graph)
    route = Route.of(graph.root_mol.smiles, {step.product: step for step in reversed(steps)})
    return lacked, with_racemates(route, stock.racemate) if route.steps else None


#: The number of molecules that are not for sale, the cost, these molecules, and the steps.
_Attempt = tuple[int, float, tuple[str, ...], tuple[Step, ...]]
#: The log-prob of steps, and the steps; if a molecule has two steps, the first one is used.
_Way = tuple[float, tuple[Step, ...]]


def _alternatives(node: Any, graph: Any) -> Iterator[tuple[Step, list[Any]]]:
    """The steps from a molecule, or a set of molecules, each with the nodes that it leads to.

    The graph is a tree of molecules and reactions (`AndNode`), or of sets of molecules.
    """
    for child in graph.successors(node):
        if isinstance(child, AndNode):
            yield _step(child.reaction), list(graph.successors(child))
        else:
            yield _step(graph._graph.edges[node, child]["reaction"]), [child]


def _attempt(node: Any, graph: Any) -> _Attempt:
    """The attempt at a node that lacks least."""
    if node.has_solution:
        return 0, 0.0, (), _ways(node, graph, 1)[0][1]
    found: list[_Attempt] = []
    for step, parts in _alternatives(node, graph):
        tried = [_attempt(part, graph) for part in parts]
        lacked = tuple(dict.fromkeys(each for *_, part, _ in tried for each in part))
        steps = tuple(each for *_, part in tried for each in part)
        cost = sum(cost for _, cost, *_ in tried) - step.log_prob
        found.append((len(lacked), cost, lacked, (*steps, step)))
    if found:
        return min(found, key=lambda attempt: attempt[:3])
    molecules = [node.mol] if hasattr(node, "mol") else sorted(node.mols)
    lacked = tuple(each.smiles for each in molecules if not each.metadata.get("is_purchasable"))
    return len(lacked), 0.0, lacked, ()


def _ways(node: Any, graph: Any, most: int, nats: float = math.inf) -> list[_Way]:
    """The likeliest ways to make a node's molecules, each once; nats: as in `SearchLimits`."""
    if not node.has_solution:
        return []
    alternatives = list(_alternatives(node, graph))
    if not alternatives:
        return [(0.0, ())]
    is_set = not hasattr(node, "mol")  # a later step may make one of its molecules again
    ways: list[_Way] = []
    for step, parts in alternatives:
        own: list[_Way] = [(step.log_prob, (step,))]
        for part in parts:
            pairs = product(own, _ways(part, graph, most, nats))
            joined = [
                (before + log_prob, (*more, *way) if is_set else (*way, *more))
                for (before, way), (log_prob, more) in pairs
            ]
            own = _likeliest(joined, most, nats)
        ways += own
    return _likeliest(ways, most, nats)


def _likeliest(ways: list[_Way], most: int, nats: float) -> list[_Way]:
    """The likeliest ways; those with the same steps only once."""
    least = max((log_prob for log_prob, _ in ways), default=0.0) - nats
    different: dict[frozenset[Step], _Way] = {}
    for way in sorted(ways, key=lambda way: -way[0]):
        if way[0] >= least:
            different.setdefault(frozenset(way[1]), way)
    return list(different.values())[:most]


def _step(reaction: Any) -> Step:
    return Step(reaction.product.smiles, _smiles(reaction), reaction.metadata["log_probability"])


def _text(reaction: Any) -> str:
    """Reaction SMILES, as `listed` has them."""
    return f"{'.'.join(sorted(_smiles(reaction)))}>>{reaction.product.smiles}"


def _smiles(reaction: Any) -> tuple[str, ...]:
    return tuple(molecule.smiles for molecule in reaction.reactants)
