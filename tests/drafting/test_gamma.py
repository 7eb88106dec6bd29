"""The number of tokens to draft: the formula, and how it adapts to measurements."""

import pytest

from molspec.drafting import gamma
from molspec.drafting.gamma import Gamma, best_gamma


def gain(count: int, acceptance: float, cost: float) -> float:
    return (1 - acceptance ** (count + 1)) / ((1 - acceptance) * (count * cost + 1))


@pytest.mark.parametrize("acceptance", [0.1, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("cost", [0.01, 0.1, 0.5, 2.0])
def test_best_gamma_maximises_gain(acceptance: float, cost: float) -> None:
    best = best_gamma(acceptance, cost)
    assert gain(best, acceptance, cost) == pytest.approx(
        max(gain(count, acceptance, cost) for count in range(1, 17))
    )


def test_likelier_and_cheaper_drafts_get_larger_gamma() -> None:
    by_acceptance = [best_gamma(a, 0.1) for a in (0.2, 0.5, 0.8, 0.95)]
    by_cost = [best_gamma(0.8, c) for c in (0.3, 0.1, 0.03, 0.0)]
    assert by_acceptance == sorted(set(by_acceptance))
    assert by_cost == sorted(set(by_cost))
    assert best_gamma(0.0, 0.5) == 1
    assert best_gamma(1.0, 0.0) == 16


@pytest.mark.parametrize("row", [0.0, 0.1])
def test_gamma_adapts_to_acceptance_and_cost(monkeypatch: pytest.MonkeyPatch, row: float) -> None:
    now = 0.0
    monkeypatch.setattr(gamma, "perf_counter", lambda: now)
    adaptive = Gamma()
    counts = set()
    for number in range(300):  # a drafted token takes 0.05 s + `row`, the rest 1 s
        count = adaptive.count()
        counts.add(count)
        adaptive.begin()
        adaptive.verified(count // 2, count)
        now += 0.05 * count
        adaptive.end(count)
        now += 1.0 + row * count
        if number % 10 == 9:  # the last query is answered, and the next one comes later
            adaptive.pause()
            now += 3600.0
    assert adaptive.cost == pytest.approx(0.05 + row, rel=0.01)
    best = best_gamma(adaptive.acceptance, adaptive.cost)
    assert {best, max(1, best // 2)} <= counts
    assert [adaptive.count() for _ in range(3)] == [adaptive.count()] * 3


def test_gamma_starts_with_default_cost_and_acceptance() -> None:
    adaptive = Gamma()
    assert (adaptive.cost, adaptive.acceptance) == (0.0, 0.8)
