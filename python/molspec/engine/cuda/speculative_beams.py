"""Speculative beam search (SBS) whose rounds stay on a CUDA device (csrc/cuda/beam_rows.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from molspec._native import LIMITS, GuessModel, NoDraftOptions, SpeculativeBeamSpec, WindowOptions
from molspec.engine.cuda import drafts
from molspec.engine.cuda.beam_trees import BeamTreeRounds, TreeSizes
from molspec.engine.cuda.session import CudaSession


class SpeculativeBeamRounds(BeamTreeRounds[SpeculativeBeamSpec]):
    """SBS of Andronov et al., J. Cheminform. 2025."""

    @staticmethod
    def takes(spec: object, guess: GuessModel, session: CudaSession) -> bool:
        """Whether it is SBS that fits, with windows of at most 15 tokens or without drafts."""
        if not isinstance(spec, SpeculativeBeamSpec):
            return False
        drafter = spec.drafter
        if not isinstance(drafter, (WindowOptions, NoDraftOptions)):
            return False
        if isinstance(drafter, WindowOptions) and drafter.draft_length > LIMITS["draft_depth"]:
            return False
        sizes = SpeculativeBeamRounds._sizes_of(spec, guess, session)
        return sizes.fit(session, spec.length_norm)

    @staticmethod
    def _sizes_of(spec: SpeculativeBeamSpec, guess: GuessModel, session: CudaSession) -> TreeSizes:
        limit, _ = drafts.window_limits(session, spec.drafter)
        planned = spec.beam_size * (1 + limit)
        return TreeSizes.of(spec, guess, drafted=limit, planned=planned, numbers=(spec.nucleus,))

    def fits(self, spec: SpeculativeBeamSpec, guess: GuessModel) -> bool:
        """Whether the buffers, and the graphs on them, are those of another spec."""
        return super().fits(spec, guess) and self._windows.fits(spec.drafter, guess)

    def _make_buffers(self, spec: SpeculativeBeamSpec, guess: GuessModel) -> np.dtype[Any]:
        self._windows = drafts.DeviceWindows(self._session, spec.drafter, guess)
        return super()._make_buffers(spec, guess)

    def begin(self, spec: SpeculativeBeamSpec, guess: GuessModel) -> None:
        """Forget all queries, for those of a spec that `fits`."""
        super().begin(spec, guess)
        self._windows.begin(spec.drafter, guess)

    def _start_drafts(self, row: int, source_ids: Sequence[int]) -> int:
        return self._sizes.beam_size * (1 + self._windows.start(row, source_ids))

    def _draft(self) -> None:
        self._session.library.plan_windows(
            self._beams, self._windows.trees, self._sizes.beam_size, self._guess.bos
        )

    def _select(self) -> None:
        self._session.library.select_leaves(
            *(self._beams, self._best, self._length_norms, self._sizes.beam_size),
            *(*self._sizes.numbers, self._guess.eos),
        )
