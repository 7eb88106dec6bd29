"""Answers in text, and what becomes of those that are one molecule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from molspec.decoding import QueryStatistics, Statistics
from molspec.text import canonicalise


@dataclass(frozen=True)
class Prediction:
    """One answer."""

    #: As the model wrote it.
    smiles: str
    #: Natural log of its probability: the sum over its tokens and EOS; of merged answers that of
    #: the sum of their probabilities, of several views of the mean over the views.
    log_prob: float
    #: False where max_length came before EOS.
    finished: bool = True
    #: Samples that it stands for, where equal ones are one.
    count: int = 1
    #: Of a sample without replacement, the probability of its being among the samples.
    inclusion: float | None = None

    @cached_property
    def canonical(self) -> str | None:
        """RDKit's canonical SMILES; None where the answer is unfinished or no molecule."""
        return canonicalise(self.smiles) if self.finished else None

    @property
    def is_valid(self) -> bool:
        """Whether the answer is a molecule to RDKit."""
        return self.canonical is not None


@dataclass(frozen=True)
class Result:
    """The answers to one query, best first, or why there are none."""

    query: str
    predictions: tuple[Prediction, ...] = ()
    error: str | None = None
    #: What it took. Two results are equal where their answers are.
    statistics: QueryStatistics = field(default=QueryStatistics(), compare=False)


class Results(list[Result]):
    """Results in the order of the queries, with what they took."""

    def __init__(self, results: Iterable[Result], statistics: Statistics) -> None:
        super().__init__(results)
        self.statistics = statistics


def merge_duplicates(lists: Sequence[Sequence[Prediction]]) -> tuple[Prediction, ...]:
    """Answers with one canonical SMILES become the likeliest of them, their probabilities added.

    Of several lists, of as many spellings of a query, it is the mean over the lists: an answer that
    a list has not counts nothing there. Sorted by the new log-probs, best first; answers that are
    no molecules are one where they are one text.
    """
    groups: dict[str | tuple[str, bool], list[Prediction]] = {}
    for prediction in sorted(chain.from_iterable(lists), key=_rarity):
        key = prediction.canonical or (prediction.smiles, prediction.finished)
        groups.setdefault(key, []).append(prediction)
    every = math.log(len(lists))
    merged = [
        replace(group[0], log_prob=_log_sum(prediction.log_prob for prediction in group) - every)
        for group in groups.values()
    ]
    return tuple(sorted(merged, key=_rarity))


def count_duplicates(samples: Sequence[Prediction]) -> tuple[Prediction, ...]:
    """Samples with one canonical SMILES become one, with their count; the most frequent first.

    It is spelt as the likeliest of them and has the probability of all their spellings together.
    """
    groups: dict[str | tuple[str, bool], list[Prediction]] = {}
    for sample in samples:
        key = sample.canonical or (sample.smiles, sample.finished)
        groups.setdefault(key, []).append(sample)
    counted = []
    for group in groups.values():
        spellings = {sample.smiles: sample.log_prob for sample in group}
        counted.append(
            replace(
                min(group, key=_rarity),
                log_prob=_log_sum(spellings.values()),
                count=sum(sample.count for sample in group),
            )
        )
    return tuple(sorted(counted, key=lambda each: (-each.count, _rarity(each))))


def _rarity(prediction: Prediction) -> float:
    return -prediction.log_prob


def _log_sum(log_probs: Iterable[float]) -> float:
    """Log of the sum of probabilities, for at least one of them."""
    values = sorted(log_probs, reverse=True)
    return values[0] + math.log(sum(math.exp(value - values[0]) for value in values))
