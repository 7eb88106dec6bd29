"""Beam search whose rounds stay on a CUDA device (csrc/cuda/beam_rows.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from molspec._native import BeamSpec, GuessModel
from molspec.engine.cuda import drafts
from molspec.engine.cuda.beam_trees import BeamTreeRounds, TreeSizes
from molspec.engine.cuda.session import CudaSession


class BeamRounds(BeamTreeRounds[BeamSpec]):
    """Standard beam search, looking ahead or not."""

    @staticmethod
    def takes(spec: object, guess: GuessModel, session: CudaSession) -> bool:
        """Whether it is beam search that fits, without drafts or by a guess that a device makes."""
        if not isinstance(spec, BeamSpec) or spec.proposed or spec.sampling:
            return False
        state_size = 0
        if spec.drafts:
            if not drafts.guesses(guess):
                return False
            _, state_size = guess.row_limits(session.spec.max_positions)
        sizes = BeamRounds._sizes_of(spec, guess, session)
        return sizes.fit(session, spec.length_norm, state_size)

    @staticmethod
    def _sizes_of(spec: BeamSpec, guess: GuessModel, session: CudaSession) -> TreeSizes:
        del session
        steps, budget, confidence = (
            (spec.steps, spec.node_budget, spec.min_confidence) if spec.drafts else (0, 0, 0.0)
        )
        return TreeSizes.of(
            spec,
            guess,
            drafted=steps,
            planned=spec.beam_size + budget,
            numbers=(steps, budget, confidence),
            finished_apart=spec.finished_apart,
        )

    def fits(self, spec: BeamSpec, guess: GuessModel) -> bool:
        """Whether the buffers, and the graphs on them, are those of another spec."""
        same = self._guessed is None or self._guessed.model is guess
        return same and super().fits(spec, guess)

    def _make_buffers(self, spec: BeamSpec, guess: GuessModel) -> np.dtype[Any]:
        row = super()._make_buffers(spec, guess)
        self._guessed = (
            drafts.DeviceGuess(self._session, guess, self._sizes.nodes) if spec.drafts else None
        )
        return row

    def _start_drafts(self, row: int, source_ids: Sequence[int]) -> int:
        if self._guessed is not None:
            self._guessed.start(row, source_ids)
        return self._sizes.planned

    def _draft(self) -> None:
        if self._guessed is None:
            return
        self._session.library.look_ahead(
            *(self._beams, self._best, self._length_norms, self._guessed.tensors),
            *(self._sizes.beam_size, *self._sizes.numbers, self._guess.bos, self._guess.eos),
        )

    def _select(self) -> None:
        self._session.library.replay_beams(
            self._beams, self._best, self._length_norms, self._sizes.beam_size, self._guess.eos
        )
