"""Models for Syntheseus 0.9."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from inspect import getfullargspec
from math import exp
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

import torch
from syntheseus import BackwardReactionModel, Bag, ForwardReactionModel, Molecule
from syntheseus.interface.reaction import Reaction, ReactionMetaData, SingleProductReaction
from syntheseus.search.node_evaluation.base import NoCacheNodeEvaluator

from molspec.common.task import Task
from molspec.planners.expander import AMONG, Expander
from molspec.planners.routes import Check, Route, Step
from molspec.prediction.results import Result
from molspec.text.tokens import element_counts

_log = logging.getLogger("molspec")
#: Arguments of the models here that `Expander.load` takes; others are Syntheseus' own.
_LOADING = getfullargspec(Expander.load).kwonlyargs


class _Predicting:
    """The shared part of the two models: the source of their answers."""

    task: ClassVar[Task]

    def __init__(
        self,
        *,
        model_dir: str | Path | None = None,
        expander: Expander | None = None,
        **kwargs: Any,
    ) -> None:
        loading = {name: kwargs.pop(name) for name in _LOADING if name in kwargs}
        super().__init__(**kwargs)
        self.expander = expander or Expander.load(model_dir or self.task, **loading)
        task = self.expander.model.task
        if task not in (self.task, None):
            raise ValueError(
                f"model_dir is {str(model_dir or self.expander.model)!r}: expected a model of task "
                f"{self.task!r}, it is of {task!r}"
            )

    def _results(self, queries: Sequence[str], num_results: int) -> list[Result]:
        """The answers; a query that cannot be read has none, which Syntheseus cannot tell."""
        results = self.expander.predict(queries, num_results)
        self.expander.report(queries, results, _log.warning)
        return results

    def get_parameters(self) -> list[torch.Tensor]:
        """A tensor without memory with as many elements as the model has parameters."""
        return [torch.empty(self.expander.model.parameter_count, device="meta")]


class _Reaction(SingleProductReaction):
    """A reaction whose molecules have a fixed order, unlike a set of strings."""

    def __eq__(self, other: object) -> bool:
        """Equal to a reaction of Syntheseus: a dataclass compares only objects of its own class."""
        if not isinstance(other, SingleProductReaction):
            return NotImplemented
        compared = attrgetter("reactants", "products", "identifier")
        return bool(compared(self) == compared(other))

    __hash__ = SingleProductReaction.__hash__

    @property
    def unique_reactants(self) -> Any:
        """Each reactant once, as a view that can be used as a set."""
        return dict.fromkeys(self.reactants).keys()


class BackwardModel(_Predicting, BackwardReactionModel):
    """Predicts the reactants of a product, the likeliest first.

    model_dir: a bundled model, by default "retro", or a checkpoint of any format that molspec
    reads. Other arguments, by name, are those of `Expander.load` and of Syntheseus' own models.
    expander: an existing one, in place of all these. molspec's own cache has the answers; `reset`
    does not clear it.

    Raises ValueError if the model is a forward one or an argument is invalid.
    """

    task = "retro"

    def _get_reactions(
        self, inputs: list[Molecule], num_results: int
    ) -> list[Sequence[SingleProductReaction]]:
        results = self._results([each.smiles for each in inputs], num_results)
        makers = (partial(_Reaction, product=each) for each in inputs)
        return [
            [make(reactants=found, metadata=metadata) for found, metadata in _answers(result)]
            for make, result in zip(makers, results, strict=True)
        ]


class ForwardModel(_Predicting, ForwardReactionModel):
    """Predicts the products of reactants, the likeliest first; arguments as for `BackwardModel`."""

    task = "product"

    def _get_reactions(
        self, inputs: list[Bag[Molecule]], num_results: int
    ) -> list[Sequence[Reaction]]:
        queries = [".".join(molecule.smiles for molecule in bag) for bag in inputs]
        results = self._results(queries, num_results)
        makers = (partial(Reaction, reactants=each) for each in inputs)
        return [
            [make(products=found, metadata=metadata) for found, metadata in _answers(result)]
            for make, result in zip(makers, results, strict=True)
        ]

    def checked(self, routes: Sequence[Route]) -> list[Route]:
        """The routes and their alternatives, whose steps have what the model says of them."""
        every = (each for route in routes for each in (route, *route.alternatives))
        steps = list(dict.fromkeys(step for route in every for step in route.steps))
        results = self.expander.predict([".".join(step.reactants) for step in steps], AMONG)
        found = dict(zip(steps, map(_check, steps, results), strict=True))
        return [route.changed(lambda step: replace(step, check=found[step])) for route in routes]


def _check(step: Step, result: Result) -> Check:
    if not result.predictions:
        return Check(error=result.error)
    found, first = result.answer_with(step.product), result.predictions[0]
    rather = () if first is found else (first.canonical, first.log_prob)
    return Check(None if found is None else found.log_prob, *rather)


class HeavyAtomCost(NoCacheNodeEvaluator[Any]):
    """A value function of Retro*: what it costs to make a molecule, in nats for each heavy atom.

    With 0, a lower bound, the first route is the likeliest one; with more it is found sooner.
    """

    def __init__(self, nats: float = 0.2) -> None:
        super().__init__()
        self.nats = nats

    def _evaluate_nodes(self, nodes: Sequence[Any], graph: Any = None) -> list[float]:
        counts = [element_counts(node.mol.smiles) for node in nodes]
        return [self.nats * (each.total() - each["H"]) for each in counts]


def _answers(result: Result) -> Iterator[tuple[Bag[Molecule], ReactionMetaData]]:
    """The molecules of every valid answer, which are canonical already."""
    for prediction in result.predictions:
        if prediction.canonical is not None:
            molecules = (
                Molecule(smiles, canonicalize=False, make_rdkit_mol=False)
                for smiles in prediction.canonical.split(".")
            )
            log_prob = prediction.log_prob
            yield Bag(molecules), {"probability": exp(log_prob), "log_probability": log_prob}
