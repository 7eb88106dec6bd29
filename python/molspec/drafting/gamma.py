"""How many tokens a model drafts before the other one verifies them."""

from __future__ import annotations

from time import perf_counter

#: Of a running mean: what an observation of some rounds ago still weighs, a round.
_KEPT = 0.98
#: Taken for the acceptance until drafts have been verified, and what observations it is worth.
_FIRST_ACCEPTANCE, _FIRST_WEIGHT = 0.8, 4.0
_MOST_TOKENS = 16


def best_gamma(acceptance: float, cost: float, most: int = _MOST_TOKENS) -> int:
    """The number of drafted tokens that pays most (Leviathan et al. 2023, theorem 3.8).

    acceptance: probability that a drafted token is accepted; cost: of a step of the drafter in
    steps of the model. It maximises (1 - a^(g+1)) / ((1 - a)(g c + 1)), the tokens of a round over
    its cost.
    """

    def gain(gamma: int) -> float:
        tokens = sum(acceptance**token for token in range(gamma + 1))
        return tokens / (gamma * cost + 1)

    return max(range(1, most + 1), key=lambda gamma: (gain(gamma), -gamma))


class AdaptiveGamma:
    """Follows how many drafted tokens are accepted and what they cost, and says how many to draft.

    What it measures is time, so the number of calls differs from run to run; answers do not.
    """

    def __init__(self) -> None:
        self._accepted = _FIRST_ACCEPTANCE * _FIRST_WEIGHT
        self._verified = _FIRST_WEIGHT
        self._seconds = {"own": 0.0, "other": 0.0}
        self._counts = {"own": 0.0, "other": 0.0}
        self._last: float | None = None

    @property
    def acceptance(self) -> float:
        """Share of the drafted tokens that are accepted, of those that were looked at."""
        return self._accepted / self._verified

    @property
    def cost(self) -> float:
        """Time of a drafted token over that of all else in a round; 0 where nothing is known."""
        if not (self._counts["own"] and self._seconds["other"]):
            return 0.0
        own = self._seconds["own"] / self._counts["own"]
        return own * self._counts["other"] / self._seconds["other"]

    def count(self) -> int:
        """Tokens to draft."""
        return best_gamma(self.acceptance, self.cost)

    def verified(self, accepted: int, drafted: int) -> None:
        """Note that so many of the tokens drafted behind a path were accepted."""
        self._accepted += accepted
        self._verified += min(accepted + 1, drafted)

    def begin(self) -> None:
        """A round's drafting begins: what came before was the other model's time."""
        self._accepted *= _KEPT
        self._verified *= _KEPT
        now = perf_counter()
        if self._last is not None:
            self._add("other", now - self._last, 1)
        self._last = now

    def end(self, drafted: int) -> None:
        """So many tokens have been drafted behind each path."""
        now = perf_counter()
        if self._last is not None and drafted:
            self._add("own", now - self._last, drafted)
        self._last = now

    def _add(self, who: str, seconds: float, count: float) -> None:
        self._seconds[who] = _KEPT * self._seconds[who] + seconds
        self._counts[who] = _KEPT * self._counts[who] + count


class FixedGamma:
    """The same number of tokens always."""

    def __init__(self, gamma: int) -> None:
        self._gamma = gamma

    def count(self) -> int:
        """Tokens to draft."""
        return self._gamma

    def verified(self, accepted: int, drafted: int) -> None:
        """Nothing depends on it."""

    def begin(self) -> None:
        """Nothing is measured."""

    def end(self, drafted: int) -> None:
        """Nothing is measured."""
