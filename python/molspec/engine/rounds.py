"""Searches whose rounds stay on a CUDA device: the host looks, it does not take part.

A round is one graph: drafts, nodes, decoder step, selection (csrc/ops/greedy_rows.h and
beam_rows.h). It reads and writes what lies on the device alone, so rounds are queued ahead of the
host, which looks at the answers of one while the next one runs. A query that is found done is
replaced by a waiting one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec._native import NO_NUMBERS, Decoded, GuessModel, Hypothesis, SearchStatistics

if TYPE_CHECKING:
    from molspec.engine.cuda import CudaSession

#: Rounds under way when the host looks. With two the device never waits for the host, and does one
#: round for nothing, an empty one, when the last query ends. What is decoded does not depend on it.
ROUNDS_AHEAD = 2

#: States of a row of answers (csrc/ops/answer.h).
LIVE, NO_NUMBERS_STATE = 1, 3
_COUNTS = ("steps", "nodes", "drafted_tokens", "accepted_tokens", "emitted_tokens")


#: A kind of search.
SearchT = TypeVar("SearchT")


class DeviceRounds(ABC, Generic[SearchT]):
    """Rounds of a search on a session's device, for one decode loop after another.

    A subclass has the buffers of its search and says what a round, a fresh row and an answer are.
    `row` is the type of a row of answers, whose field "head" has "state" and the counts.
    """

    @staticmethod
    @abstractmethod
    def takes(search: object, session: CudaSession) -> bool:
        """Whether it is such a search, and one whose rounds can stay on the session's device."""

    @abstractmethod
    def fits(self, search: SearchT) -> bool:
        """Whether the buffers, and the graphs on them, are those of another search."""

    @abstractmethod
    def begin(self, search: SearchT) -> None:
        """Forget all queries, for a decode loop of `search`."""

    def __init__(self, session: CudaSession, row: np.dtype[Any], rounds_ahead: int) -> None:
        self._session = session
        self._row = row
        self._answers = self._zeros(session.query_count, row.itemsize, dtype=torch.uint8)
        self._nodes = self._zeros(0, 4)
        self._log_probs = self._zeros(0, session.spec.target_vocab_size, dtype=torch.float32)
        pinned = session.device.type == "cuda"
        self._images = [
            torch.zeros(self._answers.shape, dtype=torch.uint8, device="cpu", pin_memory=pinned)
            for _ in range(rounds_ahead)
        ]

    def _zeros(self, *shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self._session.device)

    def _forget(self, guess: GuessModel) -> None:
        """Forget all queries, for a decode loop of another search.

        Raises ValueError where the search's vocabulary is not the model's.
        """
        most = self._session.spec.target_vocab_size
        if guess.vocab_size < most:
            raise ValueError(
                f"the search knows {guess.vocab_size} tokens: expected the model's {most}"
            )
        self._guess = guess
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
        head = np.frombuffer(self._fresh().tobytes(), dtype=np.uint8).copy()
        fresh = torch.from_numpy(head)
        first_round = self._looked_count + len(self._under_way)
        with self._session.on_stream():
            for row, source_ids in zip(rows, token_ids, strict=True):
                most_nodes = self._begin(row, source_ids)
                self._answers[row, : len(fresh)] = self._session.send(fresh)
                self._live[row] = first_round, most_nodes

    def release(self, row: int) -> None:
        """Free a row and the memory of its query."""
        self._session.release(row)

    def run(self) -> list[Decoded]:
        """Queue the next round and look at the oldest one; return the queries it found done."""
        with self._session.on_stream():
            while len(self._under_way) < len(self._images):
                self._queue()
        wait, image = self._under_way.popleft()
        wait()
        done = self._look(image)
        self._looked_count += 1
        return done

    def wait(self) -> None:
        """Wait for all rounds under way: what comes next may be queued on another stream."""
        while self._under_way:
            wait, _ = self._under_way.popleft()
            wait()

    def _queue(self) -> None:
        image = self._images[(self._looked_count + len(self._under_way)) % len(self._images)]
        size = self._session.step_size(sum(most for _, most in self._live.values()))
        if size > len(self._nodes):
            self._nodes = self._nodes.new_zeros(size, 4)
            self._log_probs = self._log_probs.new_zeros(size, self._log_probs.shape[1])
            self._grow(size)
            self._session.graphs.clear()
        self._session.reserve(size)
        graphs = self._session.graphs
        graphs.run((type(self).__name__, size), lambda: self._launch(size))
        image.copy_(self._answers, non_blocking=True)
        self._under_way.append((graphs.mark(), image))

    def _look(self, image: Tensor) -> list[Decoded]:
        answers = image.numpy().view(self._row)[:, 0]
        taking_part = [row for row, (first, _) in self._live.items() if first <= self._looked_count]
        self.decoder_calls += bool(taking_part)
        done = [row for row in sorted(taking_part) if answers[row]["head"]["state"] != LIVE]
        for row in done:
            del self._live[row]
        return [self._decoded(row, answers[row]) for row in done]

    def _decoded(self, row: int, answer: np.void) -> Decoded:
        head = answer["head"]
        statistics = SearchStatistics(**{name: int(head[name]) for name in _COUNTS})
        if head["state"] == NO_NUMBERS_STATE:
            return Decoded(query=row, hypotheses=[], statistics=statistics, error=NO_NUMBERS)
        return Decoded(query=row, hypotheses=self._hypotheses(answer), statistics=statistics)

    @abstractmethod
    def _fresh(self) -> npt.NDArray[np.void]:
        """The first bytes of the answer of a query that begins."""

    @abstractmethod
    def _begin(self, row: int, source_ids: Sequence[int]) -> int:
        """Prepare all else for a query; return the most nodes that a round of it has."""

    @abstractmethod
    def _grow(self, size: int) -> None:
        """Make room for rounds of so many nodes."""

    @abstractmethod
    def _launch(self, size: int) -> None:
        """Queue the kernels of a round of at most so many nodes."""

    @abstractmethod
    def _hypotheses(self, answer: np.void) -> list[Hypothesis]:
        """What an answer that is done holds, best first."""
