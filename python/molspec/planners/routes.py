"""Routes to a target, their text and JSON forms, and the limits of a search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache, partial
from math import exp, inf, log
from typing import Any, Literal

from molspec.common.console import quoted
from molspec.common.fields import check_fields, http_setting
from molspec.common.workers import DIED
from molspec.files import Query

#: What becomes of targets.
OUTCOMES = ("solved", "in stock", "not solved")
#: What comes first of the routes to a target: the likeliest, the shortest, or the cheapest one.
Sort = Literal["probability", "steps", "price"]


@dataclass(frozen=True)
class Check:
    """What a forward model predicts for the reactants of a step.

    log_prob: of the step's product, if it is one of the three likeliest answers. answer: the
    likeliest one, if it is another, and its log_prob. error: why there is none.
    """

    log_prob: float | None = None
    answer: str | None = None
    answer_log_prob: float | None = None
    error: str | None = None

    def __str__(self) -> str:
        """In words, with probabilities."""
        log_probs = (self.log_prob, self.answer_log_prob)
        shares = [f"{100 * exp(each or 0.0):.1f} %" for each in log_probs]
        among = " as one of the three likeliest," if self.answer else ""
        confirmed = "not confirmed" if self.log_prob is None else f"confirmed{among} {shares[0]}"
        rather = self.answer and f"first gives {self.answer} {shares[1]}"
        return ", ".join(filter(None, (confirmed, rather, self.error)))


@dataclass(frozen=True)
class Step:
    """A reaction, all in canonical SMILES; log_prob is the model's of these reactants.

    racemic: reactants without a configuration that their product has at the same atoms.
    turned: reactants with another one at atoms that the step leaves as they are.
    check: what a forward model predicts, if one was asked.
    """

    product: str
    reactants: tuple[str, ...]
    log_prob: float
    racemic: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()
    check: Check | None = None

    @property
    def reaction(self) -> str:
        """Reaction SMILES."""
        return f"{'.'.join(self.reactants)}>>{self.product}"


@dataclass(frozen=True)
class Route:
    """Steps in the order of synthesis, the target's last; empty if the target is in stock.

    alternatives: routes of the same disconnections, with other groups that leave or protect.
    target: in canonical SMILES; without steps it is the molecule to buy.
    """

    steps: tuple[Step, ...]
    alternatives: tuple[Route, ...] = ()
    target: str = field(default="", compare=False)

    @classmethod
    def of(cls, target: str, by_product: Mapping[str, Step]) -> Route:
        """The steps that the target needs, each after those that make its reactants."""
        steps: dict[Step, None] = {}
        seen = set()

        def add(product: str) -> None:
            step = by_product.get(product)
            if step is not None and product not in seen:
                seen.add(product)
                for reactant in step.reactants:
                    add(reactant)
                steps[step] = None

        add(target)
        return cls(tuple(steps), target=target)

    def changed(self, change: Callable[[Step], Step]) -> Route:
        """The route and its alternatives with their steps changed."""
        others = tuple(each.changed(change) for each in self.alternatives)
        return replace(self, steps=tuple(map(change, self.steps)), alternatives=others)

    @property
    def leaves(self) -> tuple[str, ...]:
        """The molecules to buy, each once."""
        if not self.steps:
            return (self.target,) if self.target else ()
        made = {step.product for step in self.steps}
        needed = (each for step in self.steps for each in step.reactants)
        return tuple(dict.fromkeys(each for each in needed if each not in made))

    @property
    def depth(self) -> int:
        """The most steps in a row."""
        depths: dict[str, int] = {}
        for step in self.steps:
            depths[step.product] = 1 + max(depths.get(each, 0) for each in step.reactants)
        return max(depths.values(), default=0)

    @property
    def log_prob(self) -> float:
        """Sum over the steps."""
        return sum(step.log_prob for step in self.steps)

    @property
    def confirmed(self) -> bool | None:
        """Whether a forward model gives the product of every step; None if it was not asked."""
        found = [step.check.log_prob is not None for step in self.steps if step.check]
        return all(found) if found else None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "log_prob": self.log_prob,
            "leaves": list(self.leaves),
            "confirmed": self.confirmed,
            "steps": [{"reaction": step.reaction, **asdict(step)} for step in self.steps],
            "alternatives": [each.to_json() for each in self.alternatives],
        }


#: A setting of several texts between commas.
_several = partial(http_setting, "", joint=",")


@dataclass(frozen=True)
class SearchLimits:
    """The limits of a search, and of the routes that it looks for.

    min_share: of the likeliest route's probability; less probable routes are not searched for.
    keep_bonds, break_bonds: pairs of a target's atoms, by their maps if it has any, as in
        "1-2,5-6", otherwise by their places in its SMILES, from 0.
    buy, avoid: SMILES; forbid: reaction SMILES of steps; all between commas.

    Raises ValueError, naming the limit.
    """

    routes: int = http_setting(3, "Routes for each target; a search ends when it has them.")
    seconds: float = http_setting(10.0, "Maximum seconds of a search.")
    expansions: int | None = http_setting(None, "Maximum molecules that a search expands.")
    min_share: float = http_setting(
        0.01, "Drop routes below this share of the likeliest one's probability.", most=1
    )
    max_steps: int | None = http_setting(
        None, "Maximum steps: in a row for retro-star (default 10), in all for mcts (20)."
    )
    sort: Sort = http_setting(
        "probability", "The order of routes; with --check confirmed ones come first."
    )
    exclude_target: bool = http_setting(False, "Plan a target that is in stock all the same.")
    keep_bonds: str = _several(
        "Bonds that no step breaks, as 1-2,5-6: atom maps, or indices. May be repeated."
    )
    break_bonds: str = _several("Bonds that every route breaks, as --keep-bonds has them.")
    buy: str = _several("Molecules that count as purchasable, as CCN,CCO. May be repeated.")
    avoid: str = _several("Molecules that are not to be bought, as CCN,CCO. May be repeated.")
    forbid: str = _several(
        "Steps that no route has, as A.B>>C,D>>E. May be repeated.", metavar="REACTION"
    )

    def __post_init__(self) -> None:
        check_fields(replace(self, seconds=0.0) if self.seconds == inf else self)
        kept = bond_pairs(self.keep_bonds, "keep_bonds")
        if kept & bond_pairs(self.break_bonds, "break_bonds"):
            raise ValueError(f"break_bonds is {quoted(self.break_bonds)}: keep_bonds has one")
        listed(self.forbid, "forbid", sides=2)
        if both := listed(self.buy, "buy") & listed(self.avoid, "avoid"):
            raise ValueError(f"avoid is {quoted(self.avoid)}: buy has {min(both)} too")

    @property
    def aims(self) -> str:
        """What steers the search, in words."""
        bonds = {"keep bonds": self.keep_bonds, "break bonds": self.break_bonds}
        aims = {**bonds, "buy": self.buy, "do not buy": self.avoid, "without": self.forbid}
        return "; ".join(f"{aim} {text}" for aim, text in aims.items() if text)

    @property
    def nats(self) -> float:
        """The maximum difference of a route's log_prob from the likeliest route's."""
        return -log(self.min_share) if self.min_share else float("inf")


def arranged(routes: Iterable[Route], sort: Sort, cost: Callable[[str], float]) -> list[Route]:
    """Routes and their alternatives in order, confirmed ones first; cost: of a molecule to buy."""

    def rank(route: Route) -> tuple[float, ...]:
        ranks = {"steps": len(route.steps), "price": sum(map(cost, route.leaves))}
        return (route.confirmed is False, ranks.get(sort, 0), -route.log_prob)

    every = ((each, *each.alternatives) for each in routes)
    groups = (sorted((replace(x, alternatives=()) for x in group), key=rank) for group in every)
    ordered = (replace(first, alternatives=tuple(others)) for first, *others in groups)
    return sorted(ordered, key=rank)


def bond_pairs(text: str, name: str = "bonds") -> set[tuple[int, int]]:
    """Pairs of numbers, the smaller one first. Raises ValueError, naming the option."""
    if not re.fullmatch(r"(\d+-\d+(,\d+-\d+)*)?", text):
        raise ValueError(f"{name} is {quoted(text)}: expected pairs of atoms, as 1-2,5-6")
    ends = [sorted(map(int, pair.split("-"))) for pair in text.split(",") if pair]
    return {(first, second) for first, second in ends}


@lru_cache(16)  # a search of a file asks for each target
def listed(text: str, name: str = "text", sides: int = 1) -> frozenset[str]:
    """Canonical SMILES of molecules between commas, or of reactions, which have two sides.

    Raises ValueError, naming the option.
    """
    from molspec.text import canonicalise  # imports RDKit, which flags alone do not need

    found = set()
    for each in filter(None, map(str.strip, text.split(","))):
        parts = [canonicalise(side) for side in each.split(">>")]
        if len(parts) != sides or None in parts:
            expected = "SMILES" if sides == 1 else "a step, as CC(=O)Cl.CN>>CNC(C)=O"
            raise ValueError(f"{name} is {quoted(each)}: expected {expected}")
        found.add(">>".join(map(str, parts)))
    return frozenset(found)


@dataclass(frozen=True)
class Plan:
    """The result of a search for a target, with routes of different disconnections.

    expansions: molecules whose reactions the model predicted. seconds: of the search, and until its
    first route, if there is one. names, prices: of the molecules to buy, if the stock has them.
    bought: the SMILES, or the InChIKey, of what is bought for such a molecule if it is another one.
    stopped: why a search without routes ended. attempt: its best one, if it has steps; missing: the
    molecules that this lacks.
    min_share: the least probability of a route, as a share of the likeliest one's. note: the SMILES
    that was searched for in place of the query, and why; the bonds to keep and to break.
    """

    number: int
    query: Query
    routes: tuple[Route, ...] = ()
    expansions: int = 0
    seconds: float = 0.0
    first_seconds: float | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    prices: Mapping[str, str] = field(default_factory=dict)
    bought: Mapping[str, str] = field(default_factory=dict)
    stopped: str = ""
    missing: tuple[str, ...] = ()
    attempt: Route | None = None
    error: str | None = None
    min_share: float = 0.0
    note: str = ""

    @property
    def identifier(self) -> str:
        """The target's name, or its number if it has none."""
        return self.query.name or str(self.number)

    def failed(self, error: str) -> Plan:
        """The target with an error in place of its routes."""
        return Plan(self.number, self.query, error=error)

    @property
    def is_refused(self) -> bool:
        """Whether the target is not a molecule."""
        return self.error not in (None, DIED)

    @property
    def is_in_stock(self) -> bool:
        """Whether the target is in stock."""
        return any(not route.steps for route in self.routes)

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`; errors are counted apart."""
        solved, in_stock, unsolved = OUTCOMES
        return in_stock if self.is_in_stock else solved if self.routes else unsolved

    def remarks(self, route: Route) -> list[str]:
        """What a chemist must know of a route beside its steps, in words."""
        bought = {leaf: self.bought.get(leaf) for leaf in route.leaves}
        racemic = [(each, step.product) for step in route.steps for each in step.racemic]
        turned = [(each, step.product) for step in route.steps for each in step.turned]
        return [
            *(f"{leaf} is bought as {other}" for leaf, other in bought.items() if other),
            *(f"{each} is racemic or unspecified, {product} is not" for each, product in racemic),
            *(f"{each} has another configuration than {product}" for each, product in turned),
        ]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "id": self.identifier,
            "target": self.query.smiles,
            **{each.name: getattr(self, each.name) for each in fields(self)[2:]},
            "routes": [route.to_json() for route in self.routes],
            "seconds": round(self.seconds, 3),
            "first_seconds": None if self.first_seconds is None else round(self.first_seconds, 3),
            "stopped": self.stopped or None,
            "attempt": None if self.attempt is None else self.attempt.to_json(),
            "note": self.note or None,
        }
