"""Speculative beam search (SBS) whose rounds stay on a CUDA device (csrc/ops/beam_rows.h)."""

from __future__ import annotations

from collections.abc import Sequence

from molspec._native import (
    LIMITS,
    GuessModel,
    NoDraftOptions,
    SpeculativeBeamSpec,
    WindowOptions,
)
from molspec.engine.cuda import drafts
from molspec.engine.cuda.beam_trees import BeamTreeRounds, TreeSizes, capacity, special_ids
from molspec.engine.cuda.rounds import ROUNDS_AHEAD
from molspec.engine.cuda.session import CudaSession


class SpeculativeBeamRounds(BeamTreeRounds[SpeculativeBeamSpec]):
    """SBS of Andronov et al., J. Cheminform. 2025.

    Raises ValueError where the guess's vocabulary is not the model's.
    """

    @staticmethod
    def takes(spec: object, guess: GuessModel, session: CudaSession) -> bool:
        """Whether it is SBS that fits, with windows of at most 15 tokens or without drafts."""
        if not isinstance(spec, SpeculativeBeamSpec):
            return False
        if not isinstance(spec.drafter, (WindowOptions, NoDraftOptions)):
            return False
        windows = _windows(spec)
        if windows is not None and windows.draft_length > LIMITS["draft_depth"]:
            return False
        return _sizes(spec, guess, session).fit(session, spec.length_norm)

    def __init__(
        self,
        session: CudaSession,
        spec: SpeculativeBeamSpec,
        guess: GuessModel,
        rounds_ahead: int = ROUNDS_AHEAD,
    ) -> None:
        self._open_tree(session, _sizes(spec, guess, session), rounds_ahead)
        self._windows = drafts.DeviceWindowTrees(session, guess, _windows(spec))
        self.begin(spec, guess)

    def fits(self, spec: SpeculativeBeamSpec, guess: GuessModel) -> bool:
        """Whether the buffers, and the graphs on them, are those of another spec."""
        same = self._sizes == _sizes(spec, guess, self._session)
        return same and self._windows.fits(_windows(spec))

    def begin(self, spec: SpeculativeBeamSpec, guess: GuessModel) -> None:
        """Forget all queries, for those of `spec`."""
        super().begin(spec, guess)
        self._windows.begin(guess, _windows(spec))

    def _begin(self, row: int, source_ids: Sequence[int]) -> int:
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


def _windows(spec: SpeculativeBeamSpec) -> WindowOptions | None:
    return spec.drafter if isinstance(spec.drafter, WindowOptions) else None


def _sizes(spec: SpeculativeBeamSpec, guess: GuessModel, session: CudaSession) -> TreeSizes:
    limit, _ = drafts.window_limits(session, _windows(spec))
    return TreeSizes(
        beam_size=spec.beam_size,
        finished_apart=False,
        capacity=capacity(spec),
        drafted=limit,
        planned=spec.beam_size * (1 + limit),
        numbers=(spec.nucleus,),
        special_ids=special_ids(guess),
    )
