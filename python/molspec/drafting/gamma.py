"""The number of tokens that a draft model drafts before each verification."""

from __future__ import annotations

from time import perf_counter

#: The factor by which an observation's weight in a running mean falls in each round.
_KEPT = 0.98
#: The assumed acceptance before drafts are verified, and its weight in observations.
_FIRST_ACCEPTANCE, _FIRST_WEIGHT = 0.8, 4.0
_MOST_TOKENS = 16
#: One round in this many drafts half as many tokens.
_COMPARED = 8
#: Rounds before a row's cost is used: a single slow round would distort it.
_FIRST_ROUNDS = 8
#: The variance of x, as a share of its mean square, below which a line's slope is unknown.
_LEAST_SPREAD = 1e-3


def best_gamma(acceptance: float, cost: float) -> int:
    """The best number of drafted tokens (Leviathan et al. 2023, theorem 3.8).

    acceptance: probability that a drafted token is accepted; cost: of a step of the drafter in
    steps of the model. It maximises (1 - a^(g+1)) / ((1 - a)(g c + 1)), the tokens of a round over
    its cost.
    """

    def gain(gamma: int) -> float:
        tokens = sum(acceptance**token for token in range(gamma + 1))
        return tokens / (gamma * cost + 1)

    return max(range(1, _MOST_TOKENS + 1), key=lambda gamma: (gain(gamma), -gamma))


class Gamma:
    """Chooses how many tokens to draft: always `fixed`, or by measured acceptance and cost.

    A drafted token costs a step of the drafter and a row of the model's pass, which matters if
    there are many paths. Both are measured, the row by fitting a line to the times of passes; for
    that, some rounds draft half as many tokens. As times vary, the number of calls differs from run
    to run; answers do not.
    """

    def __init__(self, fixed: int | None = None) -> None:
        self._fixed = fixed
        self._accepted = _FIRST_ACCEPTANCE * _FIRST_WEIGHT
        self._verified = _FIRST_WEIGHT
        self._own = _Line()
        self._other = _Line()
        self._last: float | None = None
        self._drafted = 0
        self._rounds = 0

    @property
    def acceptance(self) -> float:
        """Share of accepted tokens among the drafted tokens that were verified."""
        return self._accepted / self._verified

    @property
    def cost(self) -> float:
        """The cost of a drafted token, in passes without drafts; 0 if unknown."""
        own = self._own.through_origin()
        row, alone = self._other.fitted()
        return (own + row) / alone if alone > 0 else 0.0

    def count(self) -> int:
        """Tokens to draft."""
        if self._fixed is not None:
            return self._fixed
        best = best_gamma(self.acceptance, self.cost)
        return max(1, best // 2) if self._rounds % _COMPARED == 0 else best

    def verified(self, accepted: int, drafted: int) -> None:
        """Record how many of the tokens drafted after a path were accepted."""
        self._accepted += accepted
        self._verified += min(accepted + 1, drafted)

    def begin(self) -> None:
        """Begin drafting in a round: the time before it was the target model's."""
        self._accepted *= _KEPT
        self._verified *= _KEPT
        self._rounds += 1
        self._measured(self._other, self._drafted)

    def end(self, drafted: int) -> None:
        """End drafting in a round, with the number of tokens drafted after each path."""
        self._drafted = drafted
        self._measured(self._own, drafted)

    def pause(self) -> None:
        """No query is left: the time until the next round is nobody's."""
        self._last = None

    def _measured(self, line: _Line, drafted: int) -> None:
        now = perf_counter()
        if self._last is not None:
            line.add(drafted, now - self._last)
        self._last = now


class _Line:
    """Seconds by number of drafted tokens; older observations count less."""

    def __init__(self) -> None:
        self._sums = [0.0] * 5  # of 1, x, y, x * x, x * y

    def add(self, x: float, y: float) -> None:
        new = (1.0, x, y, x * x, x * y)
        self._sums = [_KEPT * old + value for old, value in zip(self._sums, new, strict=True)]

    def through_origin(self) -> float:
        """Return the slope of the line through the origin: a mean, weighted by x."""
        _, x, y, _, _ = self._sums
        return y / x if x else 0.0

    def fitted(self) -> tuple[float, float]:
        """Return the slope, at least 0, and the value at 0 of the line of least squares."""
        count, x, y, xx, xy = self._sums
        if not count:
            return 0.0, 0.0
        spread = xx * count - x * x
        known = count >= _FIRST_ROUNDS and spread > _LEAST_SPREAD * xx * count
        slope = (xy * count - x * y) / spread if known else 0.0
        slope = min(max(slope, 0.0), y / x if x else 0.0)
        return slope, (y - slope * x) / count
