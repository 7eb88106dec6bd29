"""Requests that come and go: encoded, then decoded round after round, each by its own search."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from molspec._native import Decoded, GuessModel
from molspec.decoding.rounds import HostRounds, Rounds, RoundsOf, Session
from molspec.decoding.spec import SearchSpec
from molspec.decoding.statistics import Statistics, Stopwatch


@dataclass(frozen=True)
class Source:
    """What is decoded from."""

    #: In the target's vocabulary, without BOS and EOS: what drafts are copied from. Of forced
    #: decoding the target.
    token_ids: Sequence[int]
    #: With BOS and EOS as the model wants them: what is encoded.
    encoder_ids: Sequence[int]


class Requests:
    """Sources under way on one session, each with the search that was asked for it.

    At most `row_count` are decoded together, the others wait in their order. One that is done
    leaves at once and the next one takes its row. What is found for a source does not depend on the
    others. One thread at a time.
    """

    def __init__(
        self,
        session: Session,
        guess: GuessModel,
        row_count: int,
        statistics: Statistics | None = None,
    ) -> None:
        self.statistics = Statistics() if statistics is None else statistics
        self.watch = Stopwatch(self.statistics.seconds)
        self._session = session
        self._rounds_of: RoundsOf | None = getattr(session, "rounds", None)
        self._guess = guess
        self._host = HostRounds(session, guess, row_count, self.watch)
        self._free_rows = list(range(row_count))
        self._waiting: deque[tuple[int, Source, SearchSpec]] = deque()
        self._count = 0
        #: By row: the request, and the rounds that it takes part in.
        self._live: dict[int, tuple[int, Rounds]] = {}
        self._rounds: list[Rounds] = [self._host]

    @property
    def live_count(self) -> int:
        """Sources that are not done, under way or waiting."""
        return len(self._live) + len(self._waiting)

    @property
    def free_count(self) -> int:
        """Rows that are free, less the sources that wait for one."""
        return len(self._free_rows) - len(self._waiting)

    def submit(self, source: Source, spec: SearchSpec) -> int:
        """Ask for a source to be decoded; return the request's number."""
        self._count += 1
        self._waiting.append((self._count, source, spec))
        return self._count

    def cancel(self, request: int) -> None:
        """Forget a request, under way or waiting. Raises ValueError where there is none such."""
        for row, (number, rounds) in self._live.items():
            if number == request:
                rounds.cancel(row)
                self._free(row)
                return
        for place, (number, _, _) in enumerate(self._waiting):
            if number == request:
                del self._waiting[place]
                return
        raise ValueError(f"request is {request}: expected one that is not done")

    def step(self, until_done: bool = False) -> list[tuple[int, Decoded]]:
        """Do a round of all that is under way; return what is done, with the requests' numbers.

        until_done: do as many as can be done at once, until a request is done at the most.
        """
        self._admit()
        found = []
        for rounds in self._rounds:
            if not rounds.live_count:
                continue
            calls = rounds.decoder_calls
            done = rounds.run(until_done)
            self.watch.charge("step")
            self.statistics.decoder_calls += rounds.decoder_calls - calls
            for decoded in done:
                self.statistics.add(decoded)
                found.append((self._free(decoded.query), decoded))
        return found

    def _admit(self) -> None:
        """Give free rows to those that wait, encoded together."""
        count = min(len(self._free_rows), len(self._waiting))
        if not count:
            return
        admitted = [(self._free_rows.pop(), *self._waiting.popleft()) for _ in range(count)]
        rows = [row for row, *_ in admitted]
        self._session.encode(rows, [source.encoder_ids for _, _, source, _ in admitted])
        self.watch.charge("encode")
        for row, number, source, spec in admitted:
            self._live[row] = number, self._start(row, source, spec)

    def _start(self, row: int, source: Source, spec: SearchSpec) -> Rounds:
        if spec.drafter is None and self._rounds_of is not None:
            own = self._rounds_of(spec.search, self._guess)
            if own is not None:
                own.start(row, source.token_ids)
                if own not in self._rounds:
                    self._rounds.append(own)
                return own
        self._host.start(row, spec, source.token_ids, source.encoder_ids)
        return self._host

    def _free(self, row: int) -> int:
        request, _ = self._live.pop(row)
        self._session.release(row)
        self._free_rows.append(row)
        return request
