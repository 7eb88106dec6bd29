"""Beam search whose rounds stay on a CUDA device (csrc/ops/beam_rows.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from molspec._native import BeamSearch
from molspec.engine import drafts
from molspec.engine.beam_trees import BeamTreeRounds, TreeSizes, capacity, special_ids
from molspec.engine.rounds import ROUNDS_AHEAD

if TYPE_CHECKING:
    from molspec.engine.cuda import CudaSession


class BeamRounds(BeamTreeRounds[BeamSearch]):
    """Standard beam search, looking ahead or not.

    Raises ValueError where the search's vocabulary is not the model's.
    """

    @staticmethod
    def takes(search: object, session: CudaSession) -> bool:
        """Whether it is beam search that fits, without drafts or by a guess that a device makes."""
        if not isinstance(search, BeamSearch):
            return False
        if search.options.drafts and not drafts.guesses(search.guess_model):
            return False
        return _sizes(search).fit(session, search.options.length_norm)

    def __init__(
        self, session: CudaSession, search: BeamSearch, rounds_ahead: int = ROUNDS_AHEAD
    ) -> None:
        sizes = _sizes(search)
        super().__init__(session, sizes, rounds_ahead)
        self._guessed: drafts.DeviceGuess | None = None
        if search.options.drafts:
            self._guessed = drafts.DeviceGuess(session, search.guess_model, sizes.nodes)
        self.begin(search)

    def fits(self, search: BeamSearch) -> bool:
        """Whether the buffers, and the graphs on them, are those of another search."""
        same = self._guessed is None or self._guessed.model is search.guess_model
        return same and self._sizes == _sizes(search)

    def begin(self, search: BeamSearch) -> None:
        """Forget all queries, for a decode loop of `search`."""
        self._forget(search.guess_model)
        self._begin_lists(search.options)

    def _begin(self, row: int, source_ids: Sequence[int]) -> int:
        if self._guessed is not None:
            self._guessed.start(row, source_ids)
        return self._sizes.planned

    def _draft(self) -> None:
        if self._guessed is None:
            return
        self._session.library.look_ahead(
            *(*self._beams, *self._best, *self._guessed.tensors, self._sizes.beam_size),
            *(*self._sizes.numbers, self._guess.bos, self._guess.eos),
        )

    def _select(self) -> None:
        self._session.library.replay_beams(
            *self._beams, *self._best, self._sizes.beam_size, self._guess.eos
        )


def _sizes(search: BeamSearch) -> TreeSizes:
    options = search.options
    steps, budget, confidence = (
        (options.lookahead_steps, options.node_budget, options.min_confidence)
        if options.drafts
        else (0, 0, 0.0)
    )
    return TreeSizes(
        beam_size=options.beam_size,
        finished_apart=options.finished_apart,
        capacity=capacity(options),
        drafted=steps,
        planned=options.beam_size + budget,
        numbers=(steps, budget, confidence),
        special_ids=special_ids(search.guess_model),
    )
