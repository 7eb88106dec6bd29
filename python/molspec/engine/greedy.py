"""Greedy decoding whose rounds stay on a CUDA device (csrc/ops/greedy_rows.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from molspec._native import GreedySearch, Hypothesis
from molspec.engine import drafts
from molspec.engine.packing import BLOCK_POSITIONS
from molspec.engine.rounds import LIVE, ROUNDS_AHEAD, DeviceRounds

if TYPE_CHECKING:
    from molspec.engine.cuda import CudaSession

#: GreedyAnswer: the head of a row of answers.
_HEAD = np.dtype(
    [
        ("log_prob", "<f8"),
        ("state", "<i4"),
        ("finished", "<i4"),
        ("token_count", "<i4"),
        ("steps", "<i4"),
        ("nodes", "<i4"),
        ("drafted_tokens", "<i4"),
        ("accepted_tokens", "<i4"),
        ("emitted_tokens", "<i4"),
        ("first_node", "<i4"),
        ("max_length", "<i4"),
    ]
)


class GreedyRounds(DeviceRounds[GreedySearch]):
    """Greedy search on a session's device: buffers and graphs, for one decode loop after another.

    Raises ValueError where the drafters' vocabulary is not the model's.
    """

    @staticmethod
    def takes(search: object, session: CudaSession) -> bool:
        """Whether it is greedy search whose drafts can be made on the device."""
        del session
        return isinstance(search, GreedySearch) and drafts.takes(search.drafters)

    def __init__(
        self, session: CudaSession, search: GreedySearch, rounds_ahead: int = ROUNDS_AHEAD
    ) -> None:
        #: Token ids in a row of answers: a row has a multiple of 8 bytes.
        self._capacity = _capacity(search)
        row = np.dtype([("head", _HEAD), ("token_ids", "<i4", (self._capacity,))])
        super().__init__(session, row, rounds_ahead)
        self._drafter = drafts.make(session, search.drafters)
        rows, limit = session.query_count, self._drafter.limit
        blocks = -(-(self._capacity + 1 + limit) // BLOCK_POSITIONS)
        slots = torch.arange(rows * blocks * BLOCK_POSITIONS, dtype=torch.int32)
        self._slots = slots.to(session.device).view(rows, -1)
        self._drafts = self._zeros(rows, 1 + 2 * limit)
        self._kv_cache = session.cache(rows * blocks)
        self._path_slots = self._zeros(0)
        self.begin(search)

    def fits(self, search: GreedySearch) -> bool:
        """Whether the buffers, and the graphs on them, are those of another search."""
        guess = search.drafters.model
        same = (self._guess.bos, self._guess.eos, self._capacity)
        return same == (guess.bos, guess.eos, _capacity(search)) and self._drafter.fits(
            search.drafters
        )

    def begin(self, search: GreedySearch) -> None:
        """Forget all queries, for a decode loop of `search`."""
        self._forget(search.drafters.model)
        self._drafter.begin(search.drafters)
        self._max_length = search.max_length

    def _fresh(self) -> npt.NDArray[np.void]:
        head = np.zeros((), dtype=_HEAD)
        head["state"], head["max_length"] = LIVE, self._max_length
        return head

    def _begin(self, row: int, source_ids: Sequence[int]) -> int:
        return 1 + self._drafter.start(row, source_ids)

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


def _capacity(search: GreedySearch) -> int:
    return -(-search.max_length // 2) * 2
