"""A Spec-Drafter as a drafter: the next k tokens guessed in one pass of a small model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from molspec import _native
from molspec.common.fields import wrong
from molspec.decoding import DraftTree, Path
from molspec.drafting.options import SpecDraft
from molspec.drafting.session_drafter import Opened, SessionDrafter
from molspec.engine.devices import Engine, make_engine
from molspec.model.copying import copied_between_processes
from molspec.model.spec_drafter import SpecDrafterWeights
from molspec.text import Vocabulary


@copied_between_processes
class SpecDrafterModel:
    """The model of a Spec-Drafter, on the CPU; its engine is built at first use."""

    def __init__(self, weights: SpecDrafterWeights, vocabulary: Vocabulary, dtype: str) -> None:
        self._weights, self._vocabulary, self._dtype = weights, vocabulary, dtype

    @cached_property
    def engine(self) -> Engine:
        """The engine that runs it."""
        return make_engine(self._weights.spec, self._weights.weights, "cpu", self._dtype)

    def open(self, options: SpecDraft, guess: _native.GuessModel, query_count: int) -> SpecDrafter:
        """Make the drafter. Raises ValueError for more tokens than it was trained to guess."""
        most = self._weights.k
        if (k := options.k or most) > most:
            raise wrong("k", k, f"at most {most}, which the drafter was trained for")
        native = _native.SpecDrafterPaths(
            row_count=query_count,
            guess_model=guess,
            node_budget=options.node_budget,
            min_log_prob=options.min_log_prob,
        )
        return SpecDrafter(Opened.of(self.engine, self._vocabulary, query_count), native, k)


class SpecDrafter(SessionDrafter):
    """Drafts the next k tokens of a path, each guessed independently, as a tree."""

    _paths: _native.SpecDrafterPaths

    def __init__(self, opened: Opened, native: _native.SpecDrafterPaths, k: int) -> None:
        super().__init__(opened, native)
        self._k = k

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        """Draft after every path."""
        return self._drafted(paths, self._k)[0]

    def _run(self) -> None:
        self._paths.plan()
        self._paths.advance(self._step())
