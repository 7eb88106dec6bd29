"""Beam search whose rounds stay on a CUDA device (csrc/ops/beam_rows.h)."""

from __future__ import annotations

from collections.abc import Sequence

from molspec._native import BeamSpec, GuessModel
from molspec.engine.cuda import drafts
from molspec.engine.cuda.beam_trees import BeamTreeRounds, TreeSizes, capacity, special_ids
from molspec.engine.cuda.rounds import ROUNDS_AHEAD
from molspec.engine.cuda.session import CudaSession


class BeamRounds(BeamTreeRounds[BeamSpec]):
    """Standard beam search, looking ahead or not.

    Raises ValueError where the guess's vocabulary is not the model's.
    """

    @staticmethod
    def takes(spec: object, guess: GuessModel, session: CudaSession) -> bool:
        """Whether it is beam search that fits, without drafts or by a guess that a device makes."""
        if not isinstance(spec, BeamSpec) or spec.proposed:
            return False
        state_size = 0
        if spec.drafts:
            if not drafts.guesses(guess):
                return False
            _, state_size = guess.row_limits(session.spec.max_positions)
        return _sizes(spec, guess).fit(session, spec.length_norm, state_size)

    def __init__(
        self,
        session: CudaSession,
        spec: BeamSpec,
        guess: GuessModel,
        rounds_ahead: int = ROUNDS_AHEAD,
    ) -> None:
        sizes = _sizes(spec, guess)
        self._open_tree(session, sizes, rounds_ahead)
        self._guessed: drafts.DeviceGuess | None = None
        if spec.drafts:
            self._guessed = drafts.DeviceGuess(session, guess, sizes.nodes)
        self.begin(spec, guess)

    def fits(self, spec: BeamSpec, guess: GuessModel) -> bool:
        """Whether the buffers, and the graphs on them, are those of another spec."""
        same = self._guessed is None or self._guessed.model is guess
        return same and self._sizes == _sizes(spec, guess)

    def _begin(self, row: int, source_ids: Sequence[int]) -> int:
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


def _sizes(spec: BeamSpec, guess: GuessModel) -> TreeSizes:
    steps, budget, confidence = (
        (spec.steps, spec.node_budget, spec.min_confidence) if spec.drafts else (0, 0, 0.0)
    )
    return TreeSizes(
        beam_size=spec.beam_size,
        finished_apart=spec.finished_apart,
        capacity=capacity(spec),
        drafted=steps,
        planned=spec.beam_size + budget,
        numbers=(steps, budget, confidence),
        special_ids=special_ids(guess),
    )
