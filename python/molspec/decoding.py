"""The decode loop: encode, draft, step, verify, until no query is left. Token ids only, no text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from molspec._native import Decoded, SearchStatistics

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Source:
    """A query of the loop."""

    index: int
    #: Without BOS and EOS: what drafts are copied from.
    token_ids: Sequence[int]
    #: With BOS and EOS as the model wants them: what is encoded.
    encoder_ids: Sequence[int]
    #: Why it cannot be asked, where it cannot: then it has no ids.
    error: str | None = None


class Search(Protocol):
    """What the loop asks of a search (csrc/search): it drafts, verifies and selects."""

    @property
    def nodes(self) -> IntArray:
        """Staged nodes [node, 4] of the next step, see `ops.decoder_step`."""

    @property
    def path_slots(self) -> IntArray:
        """Slots of the staged nodes' paths."""

    @property
    def block_count(self) -> int:
        """Blocks that the cache must have."""

    @property
    def live_count(self) -> int:
        """Queries that are not done."""

    def start(self, query: int, source_ids: Sequence[int]) -> None:
        """Begin a query in a free row."""

    def plan(self) -> None:
        """Stage the nodes of the next step."""

    def advance(self, log_probs: FloatArray) -> list[Decoded]:
        """Read log_probs [node, vocab] of the staged nodes; return the queries that are done."""


class Session(Protocol):
    """What the loop asks of an engine: rows of a batch that are encoded, stepped and released."""

    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode sources into free rows."""

    def step(self, nodes: IntArray, path_slots: IntArray, block_count: int) -> FloatArray:
        """Log-probabilities [node, vocab] behind the nodes."""

    def release(self, row: int) -> None:
        """Free a row."""


class Rounds(Protocol):
    """What the loop runs: queries in rows of a batch, a round of all of them at a time."""

    @property
    def live_count(self) -> int:
        """Queries that are not known to be done."""

    @property
    def decoder_calls(self) -> int:
        """Passes of the decoder so far."""

    def start(
        self,
        rows: Sequence[int],
        encoder_ids: Sequence[Sequence[int]],
        token_ids: Sequence[Sequence[int]],
    ) -> None:
        """Encode sources into free rows and begin their queries."""

    def run(self) -> list[Decoded]:
        """Do a round; return the queries that are done."""

    def release(self, row: int) -> None:
        """Free a row."""


@runtime_checkable
class RoundsMaker(Protocol):
    """A session that can run some searches by itself."""

    def rounds(self, search: Search) -> Rounds | None:
        """The rounds of a search; None where the host must run it."""


@dataclass(frozen=True)
class QueryStatistics:
    """What decoding one query took."""

    #: Passes of the decoder that the query took part in, counted once for each view that did.
    decoder_calls: int = 0
    #: Its rows of them, those that were drafts, and drafts that the model confirmed.
    nodes: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    #: Tokens that decoding went on by, EOS counted: of a beam, those of all hypotheses.
    emitted_tokens: int = 0
    #: Wall time from when the query was read until it was answered.
    seconds: float = 0.0

    @classmethod
    def of(cls, parts: Sequence[Decoded], seconds: float) -> QueryStatistics:
        """What the search counted, of all views of the query together."""
        counts = [decoded.statistics for decoded in parts]
        return cls(
            sum(each.steps for each in counts),
            sum(each.nodes for each in counts),
            sum(each.drafted_tokens for each in counts),
            sum(each.accepted_tokens for each in counts),
            sum(each.emitted_tokens for each in counts),
            seconds,
        )


@dataclass
class Statistics:
    """What decoding took, summed over queries. Each view of a query counts as a query here."""

    queries: int = 0
    #: Passes of the decoder, and passes counted once for each query that took part.
    decoder_calls: int = 0
    query_calls: int = 0
    #: Rows of all passes, those of them that were drafts, and drafts that the model confirmed.
    nodes: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    #: Tokens that decoding went on by, EOS counted: of a beam, those of all hypotheses.
    emitted_tokens: int = 0
    #: Wall time by stage.
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("text", "encode", "draft", "step", "verify"), 0.0)
    )

    @property
    def accepted_per_emitted(self) -> float:
        """Share of the emitted tokens that were drafted (the paper's acceptance rate)."""
        return self.accepted_tokens / max(self.emitted_tokens, 1)

    @property
    def accepted_per_drafted(self) -> float:
        """Share of the drafted tokens that were accepted."""
        return self.accepted_tokens / max(self.drafted_tokens, 1)

    def add(self, decoded: Decoded) -> None:
        """Count a query that is done."""
        counts = decoded.statistics
        self.queries += 1
        self.query_calls += counts.steps
        self.nodes += counts.nodes
        self.drafted_tokens += counts.drafted_tokens
        self.accepted_tokens += counts.accepted_tokens
        self.emitted_tokens += counts.emitted_tokens


class _Stopwatch:
    """Charges the time since its last reading to a stage."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        self._last = perf_counter()

    def charge(self, stage: str) -> None:
        now = perf_counter()
        self._seconds[stage] += now - self._last
        self._last = now


class HostRounds:
    """Rounds of a search that drafts, verifies and selects on the host, between a session's steps.

    Time is charged to their stages.
    """

    def __init__(self, session: Session, search: Search, watch: _Stopwatch) -> None:
        self._session = session
        self._search = search
        self._watch = watch
        self.decoder_calls = 0

    @property
    def live_count(self) -> int:
        """Queries that are not done."""
        return self._search.live_count

    def start(
        self,
        rows: Sequence[int],
        encoder_ids: Sequence[Sequence[int]],
        token_ids: Sequence[Sequence[int]],
    ) -> None:
        """Encode sources into free rows and begin their queries."""
        self._session.encode(rows, encoder_ids)
        self._watch.charge("encode")
        for row, source_ids in zip(rows, token_ids, strict=True):
            self._search.start(row, source_ids)

    def run(self) -> list[Decoded]:
        """Draft, step, verify."""
        search, watch = self._search, self._watch
        search.plan()
        watch.charge("draft")
        log_probs = self._session.step(search.nodes, search.path_slots, search.block_count)
        self.decoder_calls += 1
        watch.charge("step")
        done = search.advance(log_probs)
        watch.charge("verify")
        return done

    def release(self, row: int) -> None:
        """Free a row."""
        self._session.release(row)


def decode(
    session: Session,
    search: Search,
    sources: Iterable[Source],
    batch_size: int,
    statistics: Statistics,
) -> Iterator[tuple[int, Decoded]]:
    """Decode sources, read as rows become free, and yield each as it is done: (index, Decoded).

    At most `batch_size` queries are under way; a query that is done leaves at once and the next
    one takes its row. What is yielded for a query does not depend on the others. A source with an
    error takes no row and is yielded at once. A session that can run the search by itself does; its
    rounds count as steps.
    """
    waiting = iter(sources)
    free_rows = list(range(batch_size))
    indices: dict[int, int] = {}
    watch = _Stopwatch(statistics.seconds)
    own = session.rounds(search) if isinstance(session, RoundsMaker) else None
    rounds: Rounds = HostRounds(session, search, watch) if own is None else own
    calls_before = statistics.decoder_calls
    while True:
        admitted: dict[int, Source] = {}  # by the row that each takes
        while free_rows and (source := next(waiting, None)) is not None:
            if source.error is None:
                admitted[free_rows.pop()] = source
            else:
                yield source.index, _refused(source.error)
        watch.charge("text")
        if admitted:
            encoder_ids = [source.encoder_ids for source in admitted.values()]
            token_ids = [source.token_ids for source in admitted.values()]
            rounds.start(list(admitted), encoder_ids, token_ids)
            if own is not None:
                watch.charge("encode")
            indices.update((row, source.index) for row, source in admitted.items())
        if not rounds.live_count:
            return
        done = rounds.run()
        watch.charge("step")
        statistics.decoder_calls = calls_before + rounds.decoder_calls
        for decoded in done:
            rounds.release(decoded.query)
            free_rows.append(decoded.query)
            statistics.add(decoded)
            yield indices.pop(decoded.query), decoded
        if done:
            watch.charge("text")  # what the caller did with them


def _refused(error: str) -> Decoded:
    nothing = SearchStatistics(
        steps=0, nodes=0, drafted_tokens=0, accepted_tokens=0, emitted_tokens=0
    )
    return Decoded(query=-1, hypotheses=[], statistics=nothing, error=error)
