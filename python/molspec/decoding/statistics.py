"""Counts and times of decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from molspec._native import Decoded

#: The counts of a search that are summed here.
COUNTS = ("nodes", "drafted_tokens", "accepted_tokens", "emitted_tokens")


@dataclass(frozen=True)
class QueryStatistics:
    """Counts and seconds of one query."""

    #: Decoder passes of the query, counted once for each of its spellings in them.
    decoder_calls: int = 0
    #: Its rows of those passes, the drafts among them, and the drafts that the model confirmed.
    nodes: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    #: Tokens that were added to hypotheses, EOS counted; in a beam, to all of them.
    emitted_tokens: int = 0
    #: Wall time from reading the query to its answer.
    seconds: float = 0.0

    @classmethod
    def of(cls, parts: Sequence[Decoded], seconds: float) -> QueryStatistics:
        """The search's counts, summed over the query's spellings."""
        counts = [decoded.statistics for decoded in parts]
        sums = {name: sum(getattr(each, name) for each in counts) for name in COUNTS}
        return cls(sum(each.steps for each in counts), **sums, seconds=seconds)


@dataclass
class Statistics:
    """Counts and seconds, summed over queries. Each spelling of a query counts as a query here."""

    queries: int = 0
    #: Decoder passes, and passes counted once for each query in them.
    decoder_calls: int = 0
    query_calls: int = 0
    #: As of a query.
    nodes: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    emitted_tokens: int = 0
    #: Wall time by stage.
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("text", "encode", "draft", "step", "verify"), 0.0)
    )

    @property
    def accepted_per_emitted(self) -> float:
        """Share of the emitted tokens that were drafted: the paper's acceptance rate."""
        return self.accepted_tokens / max(self.emitted_tokens, 1)

    @property
    def accepted_per_drafted(self) -> float:
        """Share of the drafted tokens that were accepted."""
        return self.accepted_tokens / max(self.drafted_tokens, 1)

    def add(self, decoded: Decoded) -> None:
        """Add a finished query."""
        counts = decoded.statistics
        self.queries += 1
        self.query_calls += counts.steps
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(counts, name))

    def include(self, part: Statistics) -> None:
        """Add the counts of another decoder."""
        for name, count in vars(part).items():
            if name != "seconds":
                setattr(self, name, getattr(self, name) + count)
        for stage, seconds in part.seconds.items():
            self.seconds[stage] += seconds


class Stopwatch:
    """Charges the time since its last reading to a stage."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._last = perf_counter()

    def restart(self) -> None:
        """Charge the time since the last reading to no stage."""
        self._last = perf_counter()

    def charge(self, stage: str) -> None:
        """Charge the time since the last reading to a stage."""
        self.charge_seconds(stage, perf_counter() - self._last)

    def charge_seconds(self, stage: str, seconds: float) -> None:
        """Charge a part of the time since its last reading, measured elsewhere, to a stage."""
        self._statistics.seconds[stage] += seconds
        self._last += seconds
