"""Probabilities of all sequences that a model can write, and a test of samples against them."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.search.plain import EOS, NextLogProbs
from tests.tiny import VOCABULARY

#: Tokens after BOS, with EOS if the sequence is finished.
Sequence_ = tuple[int, ...]


def distribution(
    row: Sequence[float], temperature: float, top_k: int | None = None, top_p: float | None = None
) -> dict[int, float]:
    """Probabilities of the tokens that may be drawn."""
    likeliest = sorted(range(len(row)), key=lambda token: (-row[token], token))
    weights = {token: math.exp((row[token] - max(row)) / temperature) for token in likeliest}
    selected = likeliest[:top_k]
    if top_p is not None:
        total, above = math.fsum(weights[token] for token in selected), 0.0
        for count, token in enumerate(selected):
            if above >= top_p * total:
                selected = selected[:count]
                break
            above += weights[token]
    total = math.fsum(weights[token] for token in selected)
    return {token: weights[token] / total for token in selected}


def sequences(
    next_log_probs: NextLogProbs, max_length: int, temperature: float, **filters: float | None
) -> dict[Sequence_, float]:
    """The probability of every sequence of at most max_length tokens."""

    def continuations(prefix: Sequence_, probability: float) -> Iterator[tuple[Sequence_, float]]:
        if len(prefix) == max_length or prefix[-1:] == (EOS,):
            yield prefix, probability
            return
        row = next_log_probs([VOCABULARY.bos_id, *prefix])
        for token, share in distribution(row, temperature, **filters).items():
            yield from continuations((*prefix, token), probability * share)

    return dict(continuations((), 1.0))


def chi_square(samples: Iterable[Sequence_], expected: Mapping[Sequence_, float]) -> float:
    """Chi-square statistic in standard deviations above its mean, approximately normal (Wilson and
    Hilferty). Outcomes that are expected less than five times are counted as one.
    """
    counts = Counter(samples)
    assert set(counts) <= {each for each, share in expected.items() if share > 0}
    total = sum(counts.values())
    cells: dict[object, list[float]] = {}
    for outcome, share in expected.items():
        cell = cells.setdefault(outcome if share * total >= 5 else "rare", [0, 0])
        cell[0] += counts[outcome]
        cell[1] += share * total
    statistic = sum((observed - mean) ** 2 / mean for observed, mean in cells.values())
    freedom = len(cells) - 1
    if freedom == 0:
        return 0.0
    spread = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / spread**0.5
