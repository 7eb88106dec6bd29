"""How many tokens to draft: the formula, and what is followed."""

from __future__ import annotations

import pytest

from molspec.drafting import gamma
from molspec.drafting.gamma import AdaptiveGamma, best_gamma


def gain(count: int, acceptance: float, cost: float) -> float:
    return (1 - acceptance ** (count + 1)) / ((1 - acceptance) * (count * cost + 1))


@pytest.mark.parametrize("acceptance", [0.1, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("cost", [0.01, 0.1, 0.5, 2.0])
def test_no_other_number_pays_more(acceptance: float, cost: float) -> None:
    best = best_gamma(acceptance, cost)
    assert gain(best, acceptance, cost) == pytest.approx(
        max(gain(count, acceptance, cost) for count in range(1, 17))
    )


def test_likelier_and_cheaper_drafts_are_longer() -> None:
    by_acceptance = [best_gamma(a, 0.1) for a in (0.2, 0.5, 0.8, 0.95)]
    by_cost = [best_gamma(0.8, c) for c in (0.3, 0.1, 0.03, 0.0)]
    assert by_acceptance == sorted(set(by_acceptance))
    assert by_cost == sorted(set(by_cost))
    assert best_gamma(0.0, 0.5) == 1
    assert best_gamma(1.0, 0.0) == 16


def test_it_follows_acceptance_and_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(gamma, "perf_counter", lambda: now)
    adaptive = AdaptiveGamma()
    for _ in range(300):  # four tokens drafted in 0.2 s, one of them accepted; the rest takes 1 s
        adaptive.begin()
        adaptive.verified(1, 4)
        now += 0.2
        adaptive.end(4)
        now += 1.0
    assert adaptive.acceptance == pytest.approx(0.5, abs=0.01)
    assert adaptive.cost == pytest.approx(0.05, abs=0.005)
    assert adaptive.count() == best_gamma(0.5, 0.05)
