"""Native n-gram models compared with simple interpolated absolute discounting."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from molspec._native import NgramBuilder, NgramModel
from tests import refused

ALPHABET = 6
SYMBOLS = st.integers(0, ALPHABET - 1)
OBSERVATIONS = st.lists(st.tuples(st.lists(SYMBOLS, max_size=4), SYMBOLS), min_size=1, max_size=60)
ORDERS = st.integers(1, 4)
#: Each context of order 4 makes a stored probability too small by a factor of at most 2^(1/16).
ROUNDING = 2 ** (-5 / 16)

Observation = tuple[Sequence[int], int]


def build(observations: Sequence[Observation], order: int, min_gain: float = 0.0) -> NgramModel:
    builder = NgramBuilder(order=order, alphabet_size=ALPHABET)
    for context, symbol in observations:
        builder.add(context, symbol)
    return NgramModel(builder.build(discount=0.5, min_gain=min_gain))


def probability(
    observations: Sequence[Observation], order: int, context: Sequence[int], symbol: int
) -> float:
    """Discounted counts, plus the discounted mass times the shorter context's probability."""
    lower = 1 / ALPHABET
    for length in range(min(order - 1, len(context)) + 1):
        suffix = list(context[len(context) - length :])
        counts = Counter(
            seen
            for past, seen in observations
            if len(past) >= length and list(past[len(past) - length :]) == suffix
        )
        # The model leaves out contexts that were observed only once.
        if length > 0 and counts.total() < 2:
            break
        discounted = max(counts[symbol] - 0.5, 0.0)
        lower = (discounted + 0.5 * len(counts) * lower) / counts.total()
    return lower


@given(OBSERVATIONS, ORDERS, st.lists(SYMBOLS, max_size=5))
def test_probabilities_match_counts(
    observations: list[Observation], order: int, context: list[int]
) -> None:
    found = dict(build(observations, order).lookup(context, 0.0))
    assert sum(found.values()) <= 1.0001
    for symbol in range(ALPHABET):
        expected = probability(observations, order, context, symbol)
        assert expected * ROUNDING <= found[symbol] <= expected * 1.25 + 1e-6


@given(OBSERVATIONS, st.floats(0.0, 1.0), st.lists(SYMBOLS, max_size=5))
def test_omitted_probability_is_at_most_the_floor(
    observations: list[Observation], floor: float, context: list[int]
) -> None:
    model = build(observations, 4)
    everything, found = model.lookup(context, 0.0), model.lookup(context, floor)
    assert found == everything[: len(found)]
    assert len({symbol for symbol, _ in found}) == len(found)
    assert sum(p for _, p in everything[len(found) :]) <= floor + 1e-5


@given(OBSERVATIONS, st.floats(0.0, 50.0), st.lists(SYMBOLS, max_size=5))
def test_pruned_models_are_still_distributions(
    observations: list[Observation], min_gain: float, context: list[int]
) -> None:
    found = build(observations, 4, min_gain).lookup(context, 0.0)
    assert sorted(symbol for symbol, _ in found) == list(range(ALPHABET))
    assert 0.7 <= sum(p for _, p in found) <= 1.0001


@pytest.mark.parametrize("alphabet_size", [256, 257, 65535])
def test_large_alphabets_are_supported(alphabet_size: int) -> None:
    builder = NgramBuilder(order=2, alphabet_size=alphabet_size)
    last = alphabet_size - 1
    for _ in range(9):
        builder.add([last], last)
        builder.add([0], 1)
    model = NgramModel(builder.build(discount=0.5, min_gain=0.0))
    found = dict(model.lookup([last], 0.1))
    assert max(found, key=found.__getitem__) == last


@pytest.mark.parametrize(
    ("order", "alphabet_size", "message"),
    [
        (0, 5, "order is 0: expected 1 to 16"),
        (17, 5, "order is 17: expected 1 to 16"),
        (2, 0, "alphabet_size is 0: expected 1 to 65535"),
        (2, 65536, "alphabet_size is 65536: expected 1 to 65535"),
    ],
)
def test_wrong_sizes_are_refused(order: int, alphabet_size: int, message: str) -> None:
    refused(message, NgramBuilder, order=order, alphabet_size=alphabet_size)


def test_wrong_observations_are_refused() -> None:
    builder = NgramBuilder(order=2, alphabet_size=5)
    refused("no observations", builder.build, discount=0.5, min_gain=0.0)
    refused("symbol is 5: expected 0 to 4", builder.add, [5], 1)
    refused("symbol is -1: expected 0 to 4", builder.add, [1], -1)
    builder.add([1], 1)
    refused("discount is 1:", builder.build, discount=1.0, min_gain=0.0)
