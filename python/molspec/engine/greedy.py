"""Greedy decoding whose rounds stay on a CUDA device (csrc/ops/greedy_rows.h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from molspec._native import GreedySearch, Hypothesis, NoDraftOptions, WindowOptions
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


@dataclass(frozen=True)
class _Sizes:
    """What the buffers of a search depend on, and the numbers that its graphs hold."""

    #: Token ids in a row of answers: a row has a multiple of 8 bytes, as it begins with a double.
    capacity: int
    most_drafts: int
    tree_entries: int
    drafts: bool
    special_ids: tuple[int, int]

    @classmethod
    def of(cls, search: GreedySearch, longest: int) -> _Sizes:
        options, guess = search.drafters.options, search.drafters.model
        special_ids = guess.bos, guess.eos
        capacity = -(-search.max_length // 2) * 2
        if isinstance(options, WindowOptions):
            return cls(capacity, *options.tree_limits(longest), True, special_ids)
        return cls(capacity, 0, 1, False, special_ids)


class GreedyRounds(DeviceRounds[GreedySearch]):
    """Greedy search on a session's device: buffers and graphs, for one decode loop after another.

    Raises ValueError where the drafters' vocabulary is not the model's.
    """

    @staticmethod
    def takes(search: object, session: CudaSession) -> bool:
        """Whether it is greedy search whose drafts can be made on the device."""
        del session
        return isinstance(search, GreedySearch) and isinstance(
            search.drafters.options, (NoDraftOptions, WindowOptions)
        )

    def __init__(
        self, session: CudaSession, search: GreedySearch, rounds_ahead: int = ROUNDS_AHEAD
    ) -> None:
        self._sizes = sizes = _Sizes.of(search, session.spec.max_positions)
        row = np.dtype([("head", _HEAD), ("token_ids", "<i4", (sizes.capacity,))])
        super().__init__(session, row, rounds_ahead)
        rows = session.query_count
        blocks = -(-(sizes.capacity + 1 + sizes.most_drafts) // BLOCK_POSITIONS)
        slots = torch.arange(rows * blocks * BLOCK_POSITIONS, dtype=torch.int32)
        self._slots = slots.to(session.device).view(rows, -1)
        self._drafts = self._zeros(rows, 1 + 2 * sizes.most_drafts)
        self._trees = self._zeros(rows, sizes.tree_entries)
        self._kv_cache = session.cache(rows * blocks)
        self._path_slots = self._zeros(0)
        self.begin(search)

    def fits(self, search: GreedySearch) -> bool:
        """Whether the buffers, and the graphs on them, are those of another search."""
        return self._sizes == _Sizes.of(search, self._session.spec.max_positions)

    def begin(self, search: GreedySearch) -> None:
        """Forget all queries, for a decode loop of `search`."""
        self._forget(search.drafters.model)
        options = search.drafters.options
        self._windows = options if isinstance(options, WindowOptions) else None
        self._max_length = search.max_length

    def _fresh(self) -> npt.NDArray[np.void]:
        head = np.zeros((), dtype=_HEAD)
        head["state"], head["max_length"] = LIVE, self._max_length
        return head

    def _begin(self, row: int, source_ids: Sequence[int]) -> int:
        if self._windows is None:
            return 1
        trees = self._guess.window_trees(source_ids, self._windows)
        self._trees[row, : len(trees)] = self._session.send(torch.tensor(trees, dtype=torch.int32))
        return 1 + max(trees[3 : 1 + 3 * trees[0] : 3], default=0)

    def _grow(self, size: int) -> None:
        self._path_slots = self._path_slots.new_zeros(size * self._sizes.capacity)

    def _launch(self, size: int) -> None:
        library = self._session.library
        answers, slots, drafts = self._answers, self._slots, self._drafts
        nodes, log_probs = self._nodes[:size], self._log_probs[:size]
        if self._windows:
            library.propose_windows(answers, drafts, self._trees, self._guess.bos)
        library.stage_nodes(answers, slots, drafts, nodes, self._path_slots, self._guess.bos)
        self._session.launch(nodes, self._path_slots, self._kv_cache, log_probs)
        library.verify_nodes(answers, slots, drafts, log_probs, self._guess.eos)

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
