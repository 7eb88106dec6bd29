"""A model for planners: reactions of one molecule or several, with a cache of predictions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from molspec.files import Query, prepare_query
from molspec.prediction.cache import AnswerCache
from molspec.prediction.model import Model, load
from molspec.prediction.options import OPTION_NAMES, PredictOptions, check_names
from molspec.prediction.results import ALL_DROPPED, Result, differs_in_stereo

#: For planners: different molecules only, each once, and no wider beams: expanding another molecule
#: helps more than further predictions for this one.
USABLE: dict[str, Any] = {
    "merge_duplicates": True,
    "drop_invalid": True,
    "drop_unchanged": True,
    "max_beam_factor": 1,
}

#: The likeliest answers of a forward model among which a product must be.
AMONG = 3


class Expander:
    """A model, with a cache of its predictions.

    options: of `PredictOptions`, by name; by default invalid, unchanged and duplicate predictions
        are dropped, and a query is decoded once.
    mass: predictions beyond this share of the list's probability are dropped.
    keep_salts: decode salts and mixtures unchanged; otherwise a model of reactants decodes the
        molecule of a salt, which is then its result's `query`, and several molecules are an error.

    Reactants one of which is the product but for its stereo, such as its enantiomer, protonated or
    not, are dropped, and impossible answers: a product with an element that no reactant has.

    Raises ValueError, naming the argument, and TypeError for an unknown option.
    """

    def __init__(
        self,
        model: Model,
        options: Mapping[str, Any] | None = None,
        cache: AnswerCache | None = None,
        mass: float = 1.0,
        keep_salts: bool = False,
    ) -> None:
        given = dict(options or {})
        check_names("options", given, OPTION_NAMES)
        if not 0 < mass <= 1:
            raise ValueError(f"mass is {mass}: expected more than 0 and at most 1")
        self.model = model
        self.cache = AnswerCache() if cache is None else cache
        self.keep_salts = keep_salts
        self._mass = mass
        self._reported: set[str] = set()
        self._options = PredictOptions(**{**USABLE, **given})

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        *,
        device: str = "cpu",
        dtype: str | None = None,
        cache_file: str | Path | None = None,
        cache_size: int = 100_000,
        options: Mapping[str, Any] | None = None,
        mass: float = 1.0,
        keep_salts: bool = False,
    ) -> Expander:
        """Load a model as `molspec.load` does, with a cache as `molspec.AnswerCache`."""
        cache = AnswerCache(cache_size, cache_file)
        return cls(load(name_or_path, device, dtype), options, cache, mass, keep_salts)

    def predict(
        self, queries: Sequence[str], n_best: int | None = None, along: Iterable[str] = ()
    ) -> list[Result]:
        """At most n_best predictions for every query.

        Molecules in `along` are decoded in the same batch and cached, for later calls.
        """
        options = self._options
        if n_best is not None:
            width = None if options.beam_size is None else max(options.beam_size, n_best)
            options = replace(options, n_best=n_best, beam_size=width)
        main = self.model.task == "retro" and not self.keep_salts
        prepared = {text: prepare_query(Query(text), main) for text in (*queries, *along)}
        every = list(dict.fromkeys(each.decoded for each in prepared.values() if not each.error))
        answers = dict(zip(every, self._answers(every, options) if every else (), strict=True))
        return [
            Result(each.smiles, (), each.error, task=self.model.task)
            if each.error
            else self._cut(answers[each.decoded])
            for each in map(prepared.__getitem__, queries)
        ]

    def report(
        self, queries: Iterable[str], results: Iterable[Result], warn: Callable[[str], None]
    ) -> None:
        """Say why molecules have no reactions at all, each reason once, with its first molecule.

        Also what is decoded in place of a salt.
        """
        for query, result in zip(queries, results, strict=True):
            reason = message = ""
            if result.error not in (None, ALL_DROPPED):
                reason = re.sub(r"\d+|, read as .*", "", str(result.error))
                message = f"{query} has no reactions: {result.error}"
            elif result.query != query:
                reason = message = f"{query} is decoded as {result.query}, without counter-ions"
            if reason and reason not in self._reported:
                self._reported.add(reason)
                warn(message)

    def _answers(self, queries: Sequence[str], options: PredictOptions) -> list[Result]:
        """The model's own answers to different queries."""
        return self.cache.predict(self.model, queries, options)

    def _cut(self, result: Result) -> Result:
        kept = [each for each in result.predictions if not result.doubt(each)]
        if self.model.task is None:
            kept = [each for each in kept if not differs_in_stereo(each, result.query)]
        result = replace(result, predictions=tuple(kept))
        if self._mass == 1:
            return result
        sums = accumulate(result.shares)
        count = 1 + sum(share < self._mass for share in sums)
        return replace(result, predictions=result.predictions[:count])
