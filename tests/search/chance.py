"""What samples are compared with: every sequence that a model may say, and how probable it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.search.plain import EOS, NextLogProbs
from tests.tiny import VOCABULARY

#: Tokens behind BOS; EOS, where it was said, among them.
Sequence_ = tuple[int, ...]


def distribution(
    row: Sequence[float], temperature: float, top_k: int | None = None, top_p: float | None = None
) -> dict[int, float]:
    """Probabilities of the tokens that may be drawn."""
    likeliest = sorted(range(len(row)), key=lambda token: (-row[token], token))
    weights = {token: math.exp((row[token] - max(row)) / temperature) for token in likeliest}
    kept = likeliest[:top_k]
    if top_p is not None:
        total, above = math.fsum(weights[token] for token in kept), 0.0
        for count, token in enumerate(kept):
            if above >= top_p * total:
                kept = kept[:count]
                break
            above += weights[token]
    total = math.fsum(weights[token] for token in kept)
    return {token: weights[token] / total for token in kept}


def sequences(
    next_log_probs: NextLogProbs, max_length: int, temperature: float, **filters: float | None
) -> dict[Sequence_, float]:
    """The probability of every sequence of at most so many tokens."""

    def behind(prefix: Sequence_, probability: float) -> Iterator[tuple[Sequence_, float]]:
        if len(prefix) == max_length or prefix[-1:] == (EOS,):
            yield prefix, probability
            return
        row = next_log_probs([VOCABULARY.bos_id, *prefix])
        for token, share in distribution(row, temperature, **filters).items():
            yield from behind((*prefix, token), probability * share)

    return dict(behind((), 1.0))


def chi_square(drawn: Iterable[Sequence_], expected: Mapping[Sequence_, float]) -> float:
    """How many standard deviations the statistic lies above its mean, about normally distributed.

    Outcomes that are expected less than five times are one (Wilson and Hilferty's approximation).
    """
    counts = Counter(drawn)
    assert set(counts) <= {each for each, share in expected.items() if share > 0}
    total = sum(counts.values())
    cells: dict[object, list[float]] = {}
    for outcome, share in expected.items():
        cell = cells.setdefault(outcome if share * total >= 5 else "rare", [0, 0])
        cell[0] += counts[outcome]
        cell[1] += share * total
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in cells.values())
    freedom = len(cells) - 1
    if freedom == 0:
        return 0.0
    spread = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / spread**0.5
