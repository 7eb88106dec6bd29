"""Models for Syntheseus 0.9, and its search and evaluation with them.

    python -m molspec.planners.syntheseus search model_dir=retro search_target=... \
        inventory_smiles_file=stock.txt num_routes_to_plot=0
    python -m molspec.planners.syntheseus eval model_dir=retro data_dir=...

The arguments are those of Syntheseus' own command lines; `model_kwargs` are those of the models
here, as in `model_kwargs.dtype=int8`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import getfullargspec
from math import exp
from pathlib import Path
from typing import Any, ClassVar

import torch
from syntheseus import BackwardReactionModel, Bag, ForwardReactionModel, Molecule
from syntheseus.cli import eval_single_step, search
from syntheseus.interface.reaction import Reaction, ReactionMetaData, SingleProductReaction
from syntheseus.reaction_prediction.inference.config import ModelConfig
from syntheseus.reaction_prediction.utils.config import get_config

from molspec.common.task import Task
from molspec.planners.expander import Expander
from molspec.prediction.results import Result

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
        for message in self.expander.unreported(results):
            _log.warning(message)
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
        return (self.reactants, self.products, self.identifier) == (
            other.reactants,
            other.products,
            other.identifier,
        )

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
        return [
            [
                _Reaction(product=product, reactants=found, metadata=metadata)
                for found, metadata in _answers(result)
            ]
            for product, result in zip(inputs, results, strict=True)
        ]


class ForwardModel(_Predicting, ForwardReactionModel):
    """Predicts the products of reactants, the likeliest first; arguments as for `BackwardModel`."""

    task = "product"

    def _get_reactions(
        self, inputs: list[Bag[Molecule]], num_results: int
    ) -> list[Sequence[Reaction]]:
        queries = [".".join(molecule.smiles for molecule in bag) for bag in inputs]
        results = self._results(queries, num_results)
        return [
            [
                Reaction(reactants=reactants, products=found, metadata=metadata)
                for found, metadata in _answers(result)
            ]
            for reactants, result in zip(inputs, results, strict=True)
        ]


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


class BackwardClass(Enum):
    """The values of `model_class` on Syntheseus' command lines."""

    molspec = BackwardModel


@dataclass
class _Backward(ModelConfig):
    model_class: BackwardClass = BackwardClass.molspec
    model_dir: str = "retro"


@dataclass
class SearchConfig(_Backward, search.BaseSearchConfig):
    """Syntheseus' own, of a model of ours; on a GPU where there is one."""

    use_gpu: bool = torch.cuda.is_available()


@dataclass
class EvalConfig(_Backward, eval_single_step.BaseEvalConfig):
    """Syntheseus' own, of a model of ours; on a GPU where there is one."""

    num_gpus: int = int(torch.cuda.is_available())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `search` or `eval` with Syntheseus' arguments."""
    command, *rest = (sys.argv[1:] if arguments is None else [*arguments]) or [""]
    if command == "search":
        search.main(rest, config_cls=SearchConfig)
    elif command == "eval":
        eval_single_step.run_from_config(get_config(rest, EvalConfig), extra_steps=[])
    else:
        sys.exit(f"command is {command!r}: expected search or eval, and arguments of Syntheseus")


if __name__ == "__main__":
    # Graphs that a search saves name the classes' module, and "__main__" cannot be read again.
    from molspec.planners import syntheseus

    syntheseus.main()
