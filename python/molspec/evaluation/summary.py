"""The summary of an evaluation: accuracy, faults and costs over its records."""

import re
from collections import Counter
from dataclasses import dataclass
from math import sqrt
from statistics import median
from typing import Any

from molspec.decoding.statistics import COUNTS
from molspec.evaluation.record import Record

#: Ranks whose accuracy is reported, up to the number of answers requested.
REPORTED_RANKS = (1, 3, 5, 10, 25)

_NUMBER = re.compile(r"\d+")
#: Standard deviations around the mean that contain 95 % of a normal distribution.
_NORMAL_95 = 1.959964


@dataclass
class Rank:
    """Counts at one rank of the lists."""

    #: Queries that have an answer there.
    predictions: int = 0
    #: Queries whose best right answer is there.
    found: int = 0
    #: Answers that are finished, but no molecule to RDKit.
    invalid: int = 0
    #: Answers that repeat a better-ranked one of their query.
    duplicate: int = 0
    #: Answers that max_length truncated.
    unfinished: int = 0


class Summary:
    """Running sums over records. answer_count: answers requested for a query."""

    def __init__(self, answer_count: int) -> None:
        self.queries = 0
        #: Queries without answers; their targets count as not found.
        self.failed = 0
        #: Their reasons; of those that differ in numbers alone, the first.
        self.errors = Counter[str]()
        self._alike: dict[str, str] = {}
        #: Queries whose target is not a molecule to RDKit: they do not count for accuracy.
        self.excluded = 0
        self.ranks = tuple(Rank() for _ in range(answer_count))
        #: As in `QueryStatistics`.
        self.counts = dict.fromkeys(("decoder_calls", *COUNTS), 0)
        #: Wall time of the evaluation, and of each answered query from its reading on.
        self.seconds = 0.0
        self.query_seconds: list[float] = []

    def add(self, record: Record) -> None:
        """Count a query."""
        self.queries += 1
        self.failed += record.error is not None
        if record.error is not None:
            self.errors[self._alike.setdefault(_NUMBER.sub("", record.error), record.error)] += 1
        self.excluded += record.target_canonical is None
        self.seconds += record.seconds
        if record.found_at is not None:
            self.ranks[record.found_at].found += 1
        self._add_faults(record)
        if record.error is None:
            self.query_seconds.append(record.statistics.seconds)
            for name in self.counts:
                self.counts[name] += getattr(record.statistics, name)

    def _add_faults(self, record: Record) -> None:
        seen: set[str] = set()
        for rank, answer in zip(self.ranks, record.predictions, strict=False):
            rank.predictions += 1
            rank.unfinished += not answer.finished
            if answer.canonical is None:
                rank.invalid += answer.finished
            else:
                rank.duplicate += answer.canonical in seen
                seen.add(answer.canonical)

    def accuracy(self, rank: int) -> float | None:
        """Share of the targets found among the first `rank` answers; None if there are none."""
        return share(sum(place.found for place in self.ranks[:rank]), self.queries - self.excluded)

    def interval(self, rank: int) -> tuple[float, float] | None:
        """The 95 % confidence interval of the accuracy (Wilson 1927)."""
        count, found = self.queries - self.excluded, self.accuracy(rank)
        if found is None:
            return None
        shrunk = _NORMAL_95**2 / count
        middle = (found + shrunk / 2) / (1 + shrunk)
        reach = sqrt(found * (1 - found) * shrunk + shrunk**2 / 4) / (1 + shrunk)
        return max(0.0, middle - reach), min(1.0, middle + reach)

    @property
    def accuracies(self) -> dict[int, float | None]:
        """Accuracy by rank, up to the number of answers requested."""
        return {rank: self.accuracy(rank) for rank in REPORTED_RANKS if rank <= len(self.ranks)}

    def costs(self) -> dict[str, float | None]:
        """Means over the answered queries, and rates whose names have their denominator."""
        counts, answered = self.counts, self.queries - self.failed
        return {
            "decoder_calls_per_query": share(counts["decoder_calls"], answered),
            "nodes_per_query": share(counts["nodes"], answered),
            "nodes_per_call": share(counts["nodes"], counts["decoder_calls"]),
            "accepted_per_emitted": share(counts["accepted_tokens"], counts["emitted_tokens"]),
            "accepted_per_drafted": share(counts["accepted_tokens"], counts["drafted_tokens"]),
        }

    def times(self) -> dict[str, float | None]:
        """Seconds of wall time: in total, a query on average, and of the median query.

        If several queries are decoded together, a query waits for others: its own time is then
        longer than the time that it adds.
        """
        return {
            "seconds": self.seconds,
            "seconds_per_query": share(self.seconds, self.queries),
            "median_query_seconds": median(self.query_seconds) if self.query_seconds else None,
        }

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values; shares are of 1."""
        return {
            "queries": self.queries,
            "failed": self.failed,
            "errors": dict(self.errors.most_common()),
            "excluded": self.excluded,
            "accuracy": {str(rank): value for rank, value in self.accuracies.items()},
            "ranks": [
                {
                    "rank": number,
                    "accuracy": self.accuracy(number),
                    "interval": self.interval(number),
                    "predictions": rank.predictions,
                    "invalid": share(rank.invalid, rank.predictions),
                    "duplicate": share(rank.duplicate, rank.predictions),
                    "unfinished": share(rank.unfinished, rank.predictions),
                }
                for number, rank in enumerate(self.ranks, start=1)
            ],
            **self.costs(),
            **self.times(),
        }


def share(part: float, whole: float) -> float | None:
    """Return the share; None if the denominator is 0."""
    return part / whole if whole else None
