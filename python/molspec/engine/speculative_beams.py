"""Speculative beam search (SBS) whose rounds stay on a CUDA device (csrc/ops/beam_rows.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from molspec._native import SpeculativeBeamSearch
from molspec.engine import drafts
from molspec.engine.beam_trees import BeamTreeRounds, TreeSizes, capacity, special_ids
from molspec.engine.rounds import ROUNDS_AHEAD

if TYPE_CHECKING:
    from molspec.engine.cuda import CudaSession

#: kMostDraftDepth.
_LONGEST_DRAFT = 15


class SpeculativeBeamRounds(BeamTreeRounds[SpeculativeBeamSearch]):
    """SBS of Andronov et al., J. Cheminform. 2025.

    Raises ValueError where the search's vocabulary is not the model's.
    """

    @staticmethod
    def takes(search: object, session: CudaSession) -> bool:
        """Whether it is SBS that fits, with drafts of at most 15 tokens."""
        if not isinstance(search, SpeculativeBeamSearch):
            return False
        windows = search.windows
        if windows is not None and windows.draft_length > _LONGEST_DRAFT:
            return False
        return _sizes(search, session).fit(session, search.options.length_norm)

    def __init__(
        self, session: CudaSession, search: SpeculativeBeamSearch, rounds_ahead: int = ROUNDS_AHEAD
    ) -> None:
        super().__init__(session, _sizes(search, session), rounds_ahead)
        self._windows = drafts.DeviceWindowTrees(session, search.guess_model, search.windows)
        self.begin(search)

    def fits(self, search: SpeculativeBeamSearch) -> bool:
        """Whether the buffers, and the graphs on them, are those of another search."""
        return self._windows.fits(search.windows) and self._sizes == _sizes(search, self._session)

    def begin(self, search: SpeculativeBeamSearch) -> None:
        """Forget all queries, for a decode loop of `search`."""
        self._forget(search.guess_model)
        self._begin_lists(search.options)
        self._windows.begin(search.guess_model, search.windows)

    def _begin(self, row: int, source_ids: Sequence[int]) -> int:
        return self._sizes.beam_size * (1 + self._windows.start(row, source_ids))

    def _draft(self) -> None:
        self._session.library.plan_windows(
            *self._beams, self._windows.trees, self._sizes.beam_size, self._guess.bos
        )

    def _select(self) -> None:
        self._session.library.select_leaves(
            *(*self._beams, *self._best, self._sizes.beam_size),
            *(*self._sizes.numbers, self._guess.eos),
        )


def _sizes(search: SpeculativeBeamSearch, session: CudaSession) -> TreeSizes:
    options = search.options
    limit, _ = drafts.window_limits(session, search.windows)
    return TreeSizes(
        beam_size=options.beam_size,
        finished_apart=False,
        capacity=capacity(options),
        drafted=limit,
        planned=options.beam_size * (1 + limit),
        numbers=(options.nucleus,),
        special_ids=special_ids(search.guess_model),
    )
