"""Selects rows whose pairs are new, short enough and probable enough."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from molspec.common.console import counted
from molspec.text import TokenizationError, tokenize
from molspec.training.pairs import Made, product_alone
from molspec.training.prepared import SPLITS
from molspec.training.progress import Stages

#: Percentiles of the reactions' nats that are reported.
_JUDGED = (10, 25, 50, 75, 90)


@dataclass(frozen=True)
class Judge:
    """A model that computes the probability of targets.

    name: its name in reports.
    log_probs: natural log of the probability of each target, given (source, target, is_aligned);
        None if the model cannot read a pair. is_aligned: atom maps aligned the
        pair, so the target is scored as it is spelt.
    """

    name: str
    log_probs: Callable[[Iterable[tuple[str, str, bool]]], Iterable[float | None]]


@dataclass
class Sieve:
    """Selects the rows with pairs to learn from and lists the others."""

    max_tokens: int
    excluded: frozenset[str]
    selected: dict[str, list[Made]] = field(default_factory=lambda: {split: [] for split in SPLITS})
    rejected: list[Made] = field(default_factory=list)
    _validation_products: set[str] = field(default_factory=set)
    _seen: set[tuple[str, str, str]] = field(default_factory=set)

    def take(self, rows: Iterable[Made], what: str) -> None:
        """Sort rows; validation reactions come before the training reactions they rule out."""
        for made in counted(rows, f"rows of {what}"):
            reason = made.reason or self._reason(made)
            if made.split == "validation":
                self._validation_products.add(made.product or product_alone(made.row))
            if reason:
                self.reject(made, reason)
                continue
            self.selected[made.split].append(made)
            self._seen.add((made.split, *made.pairs[0]))

    def judge(self, judge: Judge, max_nats: float, progress: Stages) -> dict[str, Any]:
        """Drop training reactions that the judge finds too improbable; return its statistics."""
        rows, self.selected["train"] = self.selected["train"], []

        def score(rows: Iterator[Made]) -> Iterable[float | None]:
            return judge.log_probs((*row.pairs[0], row.row.is_mapped) for row in rows)

        judged = progress.stage("judged", rows, score)
        nats: list[float] = []
        for row, log_prob in counted(judged, "reactions judged", lambda: len(rows)):
            nats.append(math.inf if log_prob is None else -log_prob)
            if log_prob is None:
                self.reject(row, "unreadable to the judge")
            elif log_prob < -max_nats:
                self.reject(row, f"more than {max_nats:g} nats to the judge")
            else:
                self.selected["train"].append(row)
        if len(nats) != len(rows):
            raise ValueError(f"judge gave {len(nats)} log_probs: expected {len(rows)}")
        nats.sort()
        shares = {f"{percent} %": nats[len(nats) * percent // 100] for percent in _JUDGED if nats}
        readable = {share: round(value, 2) for share, value in shares.items() if value < math.inf}
        return {"reactions": len(rows), "kept": len(self.selected["train"]), "nats": readable}

    def reject(self, made: Made, reason: str, detail: str = "") -> None:
        """List a row without a pair."""
        self.rejected.append(Made(made.row, made.split, reason=reason, detail=detail))

    def _reason(self, made: Made) -> str | None:
        if made.product in self.excluded:
            return "product of an excluded file"
        if made.split == "train" and made.product in self._validation_products:
            return "product of a validation reaction"
        if (made.split, *made.pairs[0]) in self._seen:
            return "repeat"
        try:
            longest = max(len(tokenize(text)) for text in chain.from_iterable(made.pairs))
        except TokenizationError:
            return "no atomwise tokens"
        return f"more than {self.max_tokens} tokens" if longest > self.max_tokens else None
