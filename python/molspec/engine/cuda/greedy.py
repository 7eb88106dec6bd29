"""Greedy decoding whose rounds run on a CUDA device (csrc/cuda/greedy_rows.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from molspec._native import LAYOUTS, GuessModel, Hypothesis, SequenceSpec
from molspec.engine.cuda import drafts
from molspec.engine.cuda.rounds import LIVE, GraphExecutor
from molspec.engine.cuda.session import CudaSession
from molspec.engine.packing import BLOCK_POSITIONS

_HEAD = LAYOUTS["GreedyAnswer"]


class GreedyRounds(GraphExecutor[SequenceSpec]):
    """Greedy search on a session's device."""

    @staticmethod
    def takes(spec: object, guess: GuessModel, session: CudaSession) -> bool:
        """Whether it is greedy search whose drafts can be made on the device."""
        del session
        if not isinstance(spec, SequenceSpec) or spec.relaxed or spec.sampling:
            return False
        return drafts.takes(spec.drafter, guess)

    def fits(self, spec: SequenceSpec, guess: GuessModel) -> bool:
        """Whether another spec can use the buffers and graphs."""
        same = (self._guess.bos, self._guess.eos, self._capacity)
        return same == (guess.bos, guess.eos, _capacity(spec)) and self._drafter.fits(
            spec.drafter, guess
        )

    def _make_buffers(self, spec: SequenceSpec, guess: GuessModel) -> np.dtype[Any]:
        session = self._session
        #: Token ids in a row of answers: a row has a multiple of 8 bytes.
        self._capacity = _capacity(spec)
        self._drafter = drafts.make(session, spec.drafter, guess)
        rows, limit = session.query_count, self._drafter.limit
        blocks = -(-(self._capacity + 1 + limit) // BLOCK_POSITIONS)
        slots = torch.arange(rows * blocks * BLOCK_POSITIONS, dtype=torch.int32)
        self._slots = slots.to(session.device).view(rows, -1)
        self._drafts = self._zeros(rows, 1 + 2 * limit)
        self._kv_cache = session.cache(rows * blocks)
        self._path_slots = self._zeros(0)
        return np.dtype([("head", _HEAD), ("token_ids", "<i4", (self._capacity,))])

    def begin(self, spec: SequenceSpec, guess: GuessModel) -> None:
        """Drop all queries and begin with a spec that `fits`."""
        super().begin(spec, guess)
        self._drafter.begin(spec.drafter, guess)

    def _start(self, row: int, source_ids: Sequence[int]) -> tuple[int, npt.NDArray[np.void]]:
        head = np.zeros((), dtype=_HEAD)
        head["state"], head["max_length"] = LIVE, self.spec.max_length
        return 1 + self._drafter.start(row, source_ids), head

    def _grow(self, size: int) -> None:
        self._path_slots = self._path_slots.new_zeros(size * self._capacity)

    def _launch(self, size: int) -> None:
        library = self._session.library
        answers, slots, drafted = self._answers, self._slots, self._drafts
        nodes, log_probs = self._nodes[:size], self._log_probs[:size]
        self._drafter.propose(answers, drafted)
        library.stage_nodes(answers, slots, drafted, nodes, self._path_slots, self._guess.bos)
        self._session.launch(nodes, self._path_slots, self._kv_cache, log_probs)
        library.verify_nodes(answers, slots, drafted, log_probs, self._guess.eos)

    def _hypotheses(self, answer: np.void) -> list[Hypothesis]:
        head = answer["head"]
        token_ids = answer["token_ids"][: head["token_count"]].tolist()
        return [
            Hypothesis(
                token_ids=token_ids,
                log_prob=float(head["log_prob"]),
                finished=bool(head["finished"]),
            )
        ]


def _capacity(spec: SequenceSpec) -> int:
    return -(-spec.max_length // 2) * 2
