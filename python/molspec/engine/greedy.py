"""Greedy decoding whose rounds stay on a CUDA device: the host looks, it does not take part.

A round is one graph: drafts, nodes, decoder step, verification (csrc/ops/greedy_rows.h). It reads
and writes what lies on the device alone, so rounds are queued ahead of the host, which looks at
the answers of one while the next one runs. A query that is found done is replaced by a waiting one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec._native import (
    NO_NUMBERS,
    Decoded,
    GreedySearch,
    Hypothesis,
    NoDraftOptions,
    SearchStatistics,
    WindowOptions,
)
from molspec.engine.packing import BLOCK_POSITIONS

if TYPE_CHECKING:
    from molspec.engine.cuda import CudaSession

#: Rounds under way when the host looks. With two the device never waits for the host, and does one
#: round for nothing, an empty one, when the last query ends. What is decoded does not depend on it.
ROUNDS_AHEAD = 2

#: GreedyAnswer (csrc/ops/greedy_rows.h): the head of a row of answers.
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
_LIVE, _NO_NUMBERS = 1, 3
_COUNTS = ("steps", "nodes", "drafted_tokens", "accepted_tokens", "emitted_tokens")


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


class GreedyRounds:
    """Greedy search on a session's device: buffers and graphs, for one decode loop after another.

    Raises ValueError where the drafters' vocabulary is not the model's.
    """

    @staticmethod
    def takes(search: GreedySearch) -> bool:
        """Whether the search's drafts can be made on the device."""
        return isinstance(search.drafters.options, (NoDraftOptions, WindowOptions))

    def __init__(
        self, session: CudaSession, search: GreedySearch, rounds_ahead: int = ROUNDS_AHEAD
    ) -> None:
        self._session = session
        self._sizes = sizes = _Sizes.of(search, session.spec.max_positions)
        spec, device, rows = session.spec, session.device, session.query_count
        blocks = -(-(sizes.capacity + 1 + sizes.most_drafts) // BLOCK_POSITIONS)

        def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self._row = np.dtype([("head", _HEAD), ("token_ids", "<i4", (sizes.capacity,))])
        self._answers = zeros(rows, self._row.itemsize, dtype=torch.uint8)
        slots = torch.arange(rows * blocks * BLOCK_POSITIONS, dtype=torch.int32, device=device)
        self._slots = slots.view(rows, -1)
        self._drafts = zeros(rows, 1 + 2 * sizes.most_drafts)
        self._trees = zeros(rows, sizes.tree_entries)
        self._kv_cache = session.cache(rows * blocks)
        self._nodes, self._path_slots = zeros(0, 4), zeros(0)
        self._log_probs = zeros(0, spec.target_vocab_size, dtype=torch.float32)
        self._images = [
            torch.zeros(self._answers.shape, dtype=torch.uint8, pin_memory=device.type == "cuda")
            for _ in range(rounds_ahead)
        ]
        self.begin(search)

    def fits(self, search: GreedySearch) -> bool:
        """Whether the buffers, and the graphs on them, are those of another search."""
        return self._sizes == _Sizes.of(search, self._session.spec.max_positions)

    def begin(self, search: GreedySearch) -> None:
        """Forget all queries, for a decode loop of `search`."""
        self._guess = search.drafters.model
        most = self._session.spec.target_vocab_size
        if self._guess.vocab_size < most:
            raise ValueError(
                f"the drafters know {self._guess.vocab_size} tokens: expected the model's {most}"
            )
        options = search.drafters.options
        self._windows = options if isinstance(options, WindowOptions) else None
        self._max_length = search.max_length
        self._answers.zero_()
        #: Rounds that the host has not looked at: how to wait for each, and where its answers are.
        self._under_way: deque[tuple[Callable[[], None], Tensor]] = deque()
        self._looked_count = 0
        #: Of every live row: the first round that it takes part in, and its most nodes a round.
        self._live: dict[int, tuple[int, int]] = {}
        self.decoder_calls = 0

    @property
    def live_count(self) -> int:
        """Queries that the host has not seen done."""
        return len(self._live)

    def start(
        self,
        rows: Sequence[int],
        encoder_ids: Sequence[Sequence[int]],
        token_ids: Sequence[Sequence[int]],
    ) -> None:
        """Encode sources into free rows and begin their queries in the next round."""
        self._session.encode(rows, encoder_ids)
        head = np.zeros((), dtype=_HEAD)
        head["state"], head["max_length"] = _LIVE, self._max_length
        fresh = torch.from_numpy(np.frombuffer(head.tobytes(), dtype=np.uint8).copy())
        first_round = self._looked_count + len(self._under_way)
        for row, source_ids in zip(rows, token_ids, strict=True):
            most_drafts = 0
            if self._windows:
                trees = self._guess.window_trees(source_ids, self._windows)
                most_drafts = max(trees[3 : 1 + 3 * trees[0] : 3], default=0)
                sent = self._session.send(torch.tensor(trees, dtype=torch.int32))
                self._trees[row, : len(trees)] = sent
            self._answers[row, : len(fresh)] = self._session.send(fresh)
            self._live[row] = first_round, 1 + most_drafts

    def release(self, row: int) -> None:
        """Free a row and the memory of its query."""
        self._session.release(row)

    def run(self) -> list[Decoded]:
        """Queue the next round and look at the oldest one; return the queries it found done."""
        while len(self._under_way) < len(self._images):
            self._queue()
        wait, image = self._under_way.popleft()
        wait()
        done = self._look(image.numpy().view(self._row)[:, 0])
        self._looked_count += 1
        return done

    def _queue(self) -> None:
        image = self._images[(self._looked_count + len(self._under_way)) % len(self._images)]
        size = self._session.step_size(sum(most for _, most in self._live.values()))
        self._grow(size)
        graphs = self._session.graphs
        graphs.run(("greedy", size), lambda: self._launch(size))
        image.copy_(self._answers, non_blocking=True)
        self._under_way.append((graphs.mark(), image))

    def _grow(self, size: int) -> None:
        if size > len(self._nodes):
            self._nodes = self._nodes.new_zeros(size, 4)
            self._path_slots = self._path_slots.new_zeros(size * self._sizes.capacity)
            self._log_probs = self._log_probs.new_zeros(size, self._log_probs.shape[1])
            self._session.graphs.clear()
        self._session.reserve(size)

    def _launch(self, size: int) -> None:
        library = self._session.library
        answers, slots, drafts = self._answers, self._slots, self._drafts
        nodes, log_probs = self._nodes[:size], self._log_probs[:size]
        if self._windows:
            library.propose_windows(answers, drafts, self._trees, self._guess.bos)
        library.stage_nodes(answers, slots, drafts, nodes, self._path_slots, self._guess.bos)
        self._session.launch(nodes, self._path_slots, self._kv_cache, log_probs)
        library.verify_nodes(answers, slots, drafts, log_probs, self._guess.eos)

    def _look(self, answers: npt.NDArray[np.void]) -> list[Decoded]:
        taking_part = [row for row, (first, _) in self._live.items() if first <= self._looked_count]
        self.decoder_calls += bool(taking_part)
        done = [row for row in sorted(taking_part) if answers[row]["head"]["state"] != _LIVE]
        for row in done:
            del self._live[row]
        return [_decoded(row, answers[row]) for row in done]


def _decoded(row: int, answer: np.void) -> Decoded:
    head = answer["head"]
    statistics = SearchStatistics(**{name: int(head[name]) for name in _COUNTS})
    if head["state"] == _NO_NUMBERS:
        return Decoded(query=row, hypotheses=[], statistics=statistics, error=NO_NUMBERS)
    hypothesis = Hypothesis(
        token_ids=answer["token_ids"][: head["token_count"]].tolist(),
        log_prob=float(head["log_prob"]),
        finished=bool(head["finished"]),
    )
    return Decoded(query=row, hypotheses=[hypothesis], statistics=statistics)
