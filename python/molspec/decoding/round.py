"""A round on the host: draft, step, accept, for every query under way."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from molspec._native import Batch, Decoded, GuessModel, SearchSpec
from molspec.decoding.drafter import Drafter, OutsideDrafts
from molspec.decoding.statistics import Stopwatch
from molspec.engine.session import Session


@dataclass(frozen=True)
class Source:
    """What is decoded from.

    token_ids: in the target's vocabulary, without BOS and EOS: what drafts are copied from. Of
        forced decoding the target.
    encoder_ids: with BOS and EOS as the model wants them: what is encoded.
    """

    token_ids: Sequence[int]
    encoder_ids: Sequence[int]


@dataclass(frozen=True, eq=False)
class Strategy:
    """How a query is decoded: by which search, and which drafter where that has none of its own."""

    search: SearchSpec
    drafter: Drafter | None = None


@dataclass(frozen=True)
class Failed:
    """What becomes of a query that cannot be decoded; `query` is its row, as of a `Decoded`."""

    query: int
    error: Exception


class HostExecutor:
    """Runs searches that draft, verify and select on the host, between a session's steps."""

    def __init__(
        self, session: Session, guess: GuessModel, row_count: int, watch: Stopwatch
    ) -> None:
        self._session = session
        self._batch = Batch(row_count, guess)
        self._outside = OutsideDrafts(session, self._batch)
        self._watch = watch
        self.decoder_calls = 0

    @property
    def live_count(self) -> int:
        """Queries that are not done."""
        return self._batch.live_count

    def start(self, row: int, strategy: Strategy, source: Source) -> None:
        """Begin the query of an encoded row. Raises what its drafter raises."""
        key = _key(source.encoder_ids)
        self._batch.start(row, strategy.search, source.token_ids, key)
        if strategy.drafter is not None:
            try:
                self._outside.start(row, strategy.drafter, source.token_ids, source.encoder_ids)
            except BaseException:
                self._batch.cancel(row)
                raise

    def run(self, until_done: bool = False) -> Sequence[Decoded | Failed]:
        """Draft, step, accept; return the queries that are done.

        until_done: do as many rounds as can be done at once, until a query is done at the most.
        """
        if not self._outside and (step := self._session.prepared_step()) is not None:
            ran = self._batch.run(step, until_done)  # the three of them, in C++
            self.decoder_calls += ran.rounds
            self._watch.charge_seconds("draft", ran.planning)
            self._watch.charge_seconds("step", ran.stepping)
            if not ran.lacks_room:
                self._watch.charge("verify")
                return ran.done
        elif failed := self._draft():
            return failed
        return self._accept(self._step())

    def _draft(self) -> list[Failed]:
        """Let every search draft and stage its nodes; or return those whose drafter failed."""
        trees, errors = self._outside.propose()
        for row in errors:
            self.cancel(row)
        if not errors:
            self._batch.plan(trees)
        self._watch.charge("draft")
        return [Failed(row, error) for row, error in errors.items()]

    def _step(self) -> npt.NDArray[np.float32]:
        """The model's log-probabilities after the staged nodes [node, vocab]."""
        batch = self._batch
        log_probs = self._session.step(batch.nodes, batch.path_slots, batch.block_count)
        self.decoder_calls += 1
        self._watch.charge("step")
        return log_probs

    def _accept(self, log_probs: npt.NDArray[np.float32]) -> list[Decoded | Failed]:
        """Let every search accept what the model confirms; return the queries that are done."""
        done: list[Decoded | Failed] = []
        for decoded in self._batch.advance(log_probs):
            error = self._outside.release(decoded.query)
            done.append(decoded if error is None else Failed(decoded.query, error))
        self._watch.charge("verify")
        return done

    def cancel(self, row: int) -> None:
        """Forget a query that is not done."""
        self._batch.cancel(row)
        self._outside.release(row)


def _key(encoder_ids: Sequence[int]) -> int:
    """What tells a query from others, by what the model reads, on every machine alike."""
    content = np.asarray(encoder_ids, dtype="<i4").tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
