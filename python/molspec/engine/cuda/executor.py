"""Searches whose rounds run on a CUDA device without the host.

A round is one graph: drafts, nodes, decoder step, selection (csrc/cuda/rounds/greedy_rows.h and
beam_rows.h). It reads and writes only memory of the device, so rounds are queued in advance: the
host reads the answers of one while the next one runs, and replaces finished queries by waiting
ones.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec import _native
from molspec._native import Decoded, GuessModel, Hypothesis, SearchSpec
from molspec.engine.cuda.caches import MOST_ROWS, Caches
from molspec.engine.session import Source, Strategy

#: Queued rounds while the host reads answers. With two the device never waits for the host, and
#: does one empty round when the last query ends. Answers do not depend on it.
ROUNDS_AHEAD = 2

#: States of a row of answers.
LIVE, NO_NUMBERS_STATE = _native.STATES["live"], _native.STATES["no_numbers"]
_COUNTS = ("steps", "nodes", "drafted_tokens", "accepted_tokens", "emitted_tokens")


#: The spec of a kind of search.
SpecT = TypeVar("SpecT")


class Sizes(Protocol):
    """What buffers and captured graphs depend on: searches of equal sizes can share them."""

    def needs(self, caches: Caches) -> tuple[int, int]:
        """The blocks of the cache, and further bytes on the device."""


class GraphExecutor(ABC, Generic[SpecT]):
    """Rounds of one spec on a device; of another one when no query is live.

    A subclass has the buffers of its search and defines a round, a new row and an answer.
    Raises ValueError if the guess's vocabulary is not the model's.
    """

    spec: SpecT
    #: The kind of search, and the settings that the rounds obey.
    spec_type: ClassVar[type[Any]]
    settings: ClassVar[frozenset[str]]

    @classmethod
    def sizes_of(cls, spec: SearchSpec, guess: GuessModel, caches: Caches) -> Sizes | None:
        """The sizes of a search; None if it is another one, or its rounds cannot run there.

        The host runs a search with any other setting, unless that has its default.
        """
        if not isinstance(spec, cls.spec_type) or not cls.settings.issuperset(spec.given):
            return None
        return cls._sizes_of(spec, guess, caches)

    @staticmethod
    @abstractmethod
    def _sizes_of(spec: SpecT, guess: GuessModel, caches: Caches) -> Sizes | None:
        """The sizes of a search of this kind; None if its rounds cannot run on the device."""

    def __init__(
        self,
        caches: Caches,
        spec: SpecT,
        guess: GuessModel,
        sizes: Sizes,
        rounds_ahead: int = ROUNDS_AHEAD,
    ) -> None:
        self._caches = caches
        self.sizes: Any = sizes
        self._row = self._make_buffers(spec, guess)
        self._answers = self._zeros(caches.query_count, self._row.itemsize, dtype=torch.uint8)
        self._nodes = self._zeros(0, 4)
        self._log_probs = self._zeros(0, caches.spec.target_vocab_size, dtype=torch.float32)
        pinned = caches.device.type == "cuda"
        self._images = [
            torch.zeros(self._answers.shape, dtype=torch.uint8, device="cpu", pin_memory=pinned)
            for _ in range(rounds_ahead)
        ]
        self._rows_of_images = [image.numpy().view(self._row)[:, 0] for image in self._images]
        self.begin(spec, guess)

    def _zeros(self, *shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self._caches.device)

    def begin(self, spec: SpecT, guess: GuessModel) -> None:
        """Drop all queries and begin with a spec of the same sizes."""
        self.spec = spec
        most = self._caches.spec.target_vocab_size
        if guess.vocab_size < most:
            raise ValueError(
                f"the guess knows {guess.vocab_size} tokens: expected the model's {most}"
            )
        self._guess = guess
        self._answers.zero_()
        #: Functions that wait for queued rounds whose answers are unread.
        self._under_way: deque[Callable[[], None]] = deque()
        self._looked_count = 0
        rows = self._caches.query_count
        #: Of every row: its maximum nodes in a round, 0 if it is not live; and its first round.
        self._most_nodes = np.zeros(rows, dtype=np.int64)
        self._first_rounds = np.zeros(rows, dtype=np.int64)
        #: Rows that begin with the next round, and how an answer begins.
        self._fresh: list[int] = []
        self._head = self._caches.outbox.send(self._new_head().reshape(1).view(np.uint8))
        self.decoder_calls = 0

    def runs(self, spec: SearchSpec, guess: GuessModel) -> bool:
        """Whether it runs such searches now."""
        return self.spec == spec and self._guess is guess

    @property
    def live_count(self) -> int:
        """The number of queries that are not known to be done."""
        return int(np.count_nonzero(self._most_nodes))

    def start(self, row: int, strategy: Strategy, source: Source) -> None:
        """Begin the query of an encoded row in the next round."""
        del strategy  # each executor has its own
        with self._caches.on_stream():
            self._most_nodes[row] = self._start(row, source.token_ids)
        self._first_rounds[row] = self._looked_count + len(self._under_way)
        self._fresh.append(row)

    def cancel(self, row: int) -> None:
        """Drop a query from the next round on."""
        self._most_nodes[row] = 0
        if row in self._fresh:
            self._fresh.remove(row)
            return
        with self._caches.on_stream():
            self._answers[row].zero_()

    def run(self, until_done: bool = False) -> list[Decoded]:
        """Queue the next round and read the oldest one; return the queries that it finished."""
        del until_done  # the next rounds are queued in any case
        with self._caches.on_stream():
            while len(self._under_way) < len(self._images):
                self._queue()
        self._under_way.popleft()()
        done = self._look(self._rows_of_images[self._looked_count % len(self._images)])
        self._looked_count += 1
        return done

    def end(self) -> None:
        """Drop all queries and wait for the queued rounds; further work may use another stream."""
        for row in np.flatnonzero(self._most_nodes).tolist():
            self.cancel(row)
        while self._under_way:
            self._under_way.popleft()()
            self._looked_count += 1

    def _queue(self) -> None:
        image = self._images[(self._looked_count + len(self._under_way)) % len(self._images)]
        size = self._caches.step_size(int(self._most_nodes.sum()))
        if size > len(self._nodes):
            # Before the buffers move, and the one that tells the size last: memory may not suffice.
            self._caches.graphs.clear()
            self._log_probs = self._log_probs.new_zeros(size, self._log_probs.shape[1])
            self._grow(size)
            self._nodes = self._nodes.new_zeros(size, 4)
        self._caches.reserve(min(size, MOST_ROWS))
        self._begin_rows()
        graphs = self._caches.graphs
        graphs.run((id(self), size), lambda: self._launch(size))
        image.copy_(self._answers, non_blocking=True)
        self._under_way.append(graphs.mark())

    def _begin_rows(self) -> None:
        """Queue the heads of the rows that begin, in one copy."""
        rows = self._fresh
        if not rows:
            return
        several = len(rows) > 1
        where = self._caches.outbox.send(np.array(rows)) if several else rows[0]
        self._answers[where, : len(self._head)] = self._head
        self._fresh = []

    def _look(self, answers: npt.NDArray[np.void]) -> list[Decoded]:
        """The rows that a round finished; no work in Python for the others."""
        taking_part = (self._most_nodes > 0) & (self._first_rounds <= self._looked_count)
        self.decoder_calls += bool(taking_part.any())
        done = np.flatnonzero(taking_part & (answers["head"]["state"] != LIVE))
        self._most_nodes[done] = 0
        return [self._decoded(row, answers[row]) for row in done.tolist()]

    def _decoded(self, row: int, answer: np.void) -> Decoded:
        head = answer["head"]
        statistics = _native.SearchStatistics(**{name: int(head[name]) for name in _COUNTS})
        if head["state"] == NO_NUMBERS_STATE:
            return Decoded(row=row, hypotheses=[], statistics=statistics, error=_native.NON_FINITE)
        return Decoded(row=row, hypotheses=self._hypotheses(answer), statistics=statistics)

    @abstractmethod
    def _make_buffers(self, spec: SpecT, guess: GuessModel) -> np.dtype[Any]:
        """Make the buffers on the device for such searches.

        Returns the type of a row of answers, whose field "head" has "state" and the counts.
        """

    @abstractmethod
    def _new_head(self) -> npt.NDArray[np.void]:
        """The first bytes of the answer of a query that begins."""

    @abstractmethod
    def _start(self, row: int, source_ids: Sequence[int]) -> int:
        """Send a query's data for drafts; return its maximum nodes in a round."""

    def _grow(self, size: int) -> None:
        """Grow further buffers for rounds of so many nodes."""

    @abstractmethod
    def _launch(self, size: int) -> None:
        """Queue the kernels of a round of at most so many nodes."""

    @abstractmethod
    def _hypotheses(self, answer: np.void) -> list[Hypothesis]:
        """The hypotheses of a finished answer, best first."""
