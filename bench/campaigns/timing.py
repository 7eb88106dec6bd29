"""Times calls against each other on a machine that is never quite idle.

Rounds alternate between the calls, so that a disturbance affects all of them; the median over
rounds is reported. A round repeats a short call until it is long enough to be timed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter

Call = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Seconds a call took in each round."""

    rounds: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """The median round."""
        return median(self.rounds)

    @property
    def best(self) -> float:
        """The quickest round."""
        return min(self.rounds)


def measure(
    calls: Mapping[str, Call], rounds: int = 7, round_seconds: float = 0.01
) -> dict[str, Timing]:
    """Time calls in alternating rounds of about `round_seconds` each, at least one call a round."""
    repeats = {name: _repeats(call, round_seconds) for name, call in calls.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            seconds[name].append(_time(call, repeats[name]) / repeats[name])
    return {name: Timing(tuple(taken)) for name, taken in seconds.items()}


def _repeats(call: Call, round_seconds: float) -> int:
    """The number of calls that fill a round. The first call warms up and does not count."""
    call()
    once = _time(call, 1)
    return max(1, round(round_seconds / max(once, 1e-7)))


def _time(call: Call, repeats: int) -> float:
    begin = perf_counter()
    for _ in range(repeats):
        call()
    return perf_counter() - begin
