"""Searches whose rounds stay on a CUDA device: the host looks, it does not take part.

A round is one graph: drafts, nodes, decoder step, selection (csrc/cuda/greedy_rows.h and
beam_rows.h). It reads and writes what lies on the device alone, so rounds are queued ahead of the
host, which looks at the answers of one while the next one runs. A query that is found done is
replaced by a waiting one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec._native import NON_FINITE, STATES, Decoded, GuessModel, Hypothesis, SearchStatistics
from molspec.engine.cuda.session import CudaSession

#: Rounds under way when the host looks. With two the device never waits for the host, and does one
#: round for nothing, an empty one, when the last query ends. What is decoded does not depend on it.
ROUNDS_AHEAD = 2

#: States of a row of answers.
LIVE, NO_NUMBERS_STATE = STATES["live"], STATES["no_numbers"]
_COUNTS = ("steps", "nodes", "drafted_tokens", "accepted_tokens", "emitted_tokens")


#: The spec of a kind of search.
SpecT = TypeVar("SpecT")


class GraphExecutor(ABC, Generic[SpecT]):
    """Rounds of one spec on a session's device; of another one once no query is live.

    A subclass has the buffers of its search and says what a round, a fresh row and an answer are.
    Raises ValueError if the guess's vocabulary is not the model's.
    """

    #: The spec.
    spec: SpecT

    @staticmethod
    @abstractmethod
    def takes(spec: object, guess: GuessModel, session: CudaSession) -> bool:
        """Whether it is such a search, and one whose rounds can stay on the session's device."""

    @abstractmethod
    def fits(self, spec: SpecT, guess: GuessModel) -> bool:
        """Whether the buffers, and the graphs on them, are those of another spec."""

    def __init__(
        self, session: CudaSession, spec: SpecT, guess: GuessModel, rounds_ahead: int = ROUNDS_AHEAD
    ) -> None:
        self._session = session
        self._row = self._make_buffers(spec, guess)
        self._answers = self._zeros(session.query_count, self._row.itemsize, dtype=torch.uint8)
        self._nodes = self._zeros(0, 4)
        self._log_probs = self._zeros(0, session.spec.target_vocab_size, dtype=torch.float32)
        pinned = session.device.type == "cuda"
        self._images = [
            torch.zeros(self._answers.shape, dtype=torch.uint8, device="cpu", pin_memory=pinned)
            for _ in range(rounds_ahead)
        ]
        self.begin(spec, guess)

    def _zeros(self, *shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self._session.device)

    def begin(self, spec: SpecT, guess: GuessModel) -> None:
        """Forget all queries, for those of a spec that `fits`."""
        self.spec = spec
        most = self._session.spec.target_vocab_size
        if guess.vocab_size < most:
            raise ValueError(
                f"the guess knows {guess.vocab_size} tokens: expected the model's {most}"
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

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Begin the query of an encoded row in the next round."""
        first_round = self._looked_count + len(self._under_way)
        with self._session.on_stream():
            most_nodes, head = self._start(row, source_ids)
            content = torch.from_numpy(np.frombuffer(head.tobytes(), dtype=np.uint8).copy())
            self._answers[row, : len(content)] = self._session.send(content)
        self._live[row] = first_round, most_nodes

    def cancel(self, row: int) -> None:
        """Forget a query: from the next round on it has no part."""
        del self._live[row]
        with self._session.on_stream():
            self._answers[row].zero_()

    def run(self, until_done: bool = False) -> list[Decoded]:
        """Queue the next round and look at the oldest one; return the queries it found done."""
        del until_done  # the next rounds are under way as it is
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
        graphs.run((id(self), size), lambda: self._launch(size))
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
            return Decoded(query=row, hypotheses=[], statistics=statistics, error=NON_FINITE)
        return Decoded(query=row, hypotheses=self._hypotheses(answer), statistics=statistics)

    @abstractmethod
    def _make_buffers(self, spec: SpecT, guess: GuessModel) -> np.dtype[Any]:
        """Make what lies on the device for such searches.

        Returns the type of a row of answers, whose field "head" has "state" and the counts.
        """

    @abstractmethod
    def _start(self, row: int, source_ids: Sequence[int]) -> tuple[int, npt.NDArray[np.void]]:
        """Send what a query drafts from.

        Returns the most nodes that a round of it has, and the first bytes of its answer.
        """

    @abstractmethod
    def _grow(self, size: int) -> None:
        """Make room for rounds of so many nodes."""

    @abstractmethod
    def _launch(self, size: int) -> None:
        """Queue the kernels of a round of at most so many nodes."""

    @abstractmethod
    def _hypotheses(self, answer: np.void) -> list[Hypothesis]:
        """What an answer that is done holds, best first."""
