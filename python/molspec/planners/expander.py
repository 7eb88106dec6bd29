"""A model for planners: reactions of one molecule or several, with a cache of predictions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from rdkit import Chem

from molspec.prediction.cache import AnswerCache
from molspec.prediction.model import Model, load
from molspec.prediction.options import OPTION_NAMES, PredictOptions, check_names
from molspec.prediction.results import ALL_DROPPED, Result
from molspec.text import canonicalise, quiet, read_smiles, write_smiles

#: For planners: different molecules only, each once, and no wider beams: expanding another molecule
#: helps more than further predictions for this one.
USABLE: dict[str, Any] = {
    "merge_duplicates": True,
    "drop_invalid": True,
    "drop_unchanged": True,
    "max_beam_factor": 1,
}

_STEREO = re.compile(r"[@/\\]")


class Expander:
    """A model, with a cache of its predictions.

    options: of `PredictOptions`, by name; by default invalid, unchanged and duplicate predictions
        are dropped, and a query is decoded once.
    mass: predictions beyond this share of the list's probability are dropped.

    Reactants one of which is the product but for its stereo, such as its enantiomer, are dropped,
    and impossible answers: a product with an element that no reactant has.

    Raises ValueError, naming the argument, and TypeError for an unknown option.
    """

    def __init__(
        self,
        model: Model,
        options: Mapping[str, Any] | None = None,
        cache: AnswerCache | None = None,
        mass: float = 1.0,
    ) -> None:
        given = dict(options or {})
        check_names("options", given, OPTION_NAMES)
        if not 0 < mass <= 1:
            raise ValueError(f"mass is {mass}: expected more than 0 and at most 1")
        self.model = model
        self.cache = AnswerCache() if cache is None else cache
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
    ) -> Expander:
        """Load a model as `molspec.load` does, with a cache as `molspec.AnswerCache`."""
        cache = AnswerCache(cache_size, cache_file)
        return cls(load(name_or_path, device, dtype), options, cache, mass)

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
        every = list(dict.fromkeys([*queries, *along]))
        answers = dict(zip(every, self.cache.predict(self.model, every, options), strict=True))
        return [self._cut(answers[query]) for query in queries]

    def unreported(self, results: Iterable[Result]) -> Iterator[str]:
        """Why molecules have no reactions at all, each reason once, with its first molecule."""
        for result in results:
            reason = re.sub(r"\d+|, read as .*", "", result.error or "")
            if result.error not in (None, ALL_DROPPED) and reason not in self._reported:
                self._reported.add(reason)
                yield f"{result.query} has no reactions: {result.error}"

    def _cut(self, result: Result) -> Result:
        kept = [each for each in result.predictions if not result.doubt(each)]
        if self.model.task != "product":
            flat = _flat(canonicalise(result.query) or "")
            kept = [p for p in kept if flat not in _flat(p.canonical or "").split(".")]
        result = replace(result, predictions=tuple(kept))
        if self._mass == 1:
            return result
        sums = accumulate(result.probabilities)
        count = 1 + sum(share < self._mass for share in sums)
        return replace(result, predictions=result.predictions[:count])


def _flat(smiles: str) -> str:
    """Canonical SMILES without stereo; the text itself if it has none, or is not a molecule."""
    if not _STEREO.search(smiles):
        return smiles
    with quiet():
        if (molecule := read_smiles(smiles)) is None:
            return smiles
        Chem.RemoveStereochemistry(molecule)
        return write_smiles(molecule)
