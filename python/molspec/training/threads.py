"""How many threads a training takes on a CPU: those that are measured to be fast."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch

_ROUNDS = 3
#: More threads are taken where they save this share of the time at least: others may want them.
_WORTH = 0.1
#: After a round, numbers of threads that take so many times the least are out.
_HOPELESS = 1.5


def fastest(run: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    """Set the number of torch's threads that runs fastest, up to what it has now; gives seconds.

    Threads of one step wait for each other: where something else keeps one of the cores busy, a
    step on all of them can take ten times as long as a step on one.
    """
    most = torch.get_num_threads()
    doubled = [2**power for power in range(most.bit_length())]
    times: dict[int, list[float]] = {count: [] for count in sorted({*doubled, most})}
    torch.set_num_threads(1)
    run()  # what comes first takes its memory
    for _ in range(_ROUNDS):
        for count in times:
            torch.set_num_threads(count)
            began = clock()
            run()
            times[count].append(clock() - began)
        least = min(median(each) for each in times.values())
        times = {n: each for n, each in times.items() if median(each) <= _HOPELESS * least}
    seconds = {count: median(each) for count, each in times.items()}
    enough = min(seconds.values()) / (1 - _WORTH)
    chosen = min(count for count in seconds if seconds[count] <= enough)
    torch.set_num_threads(chosen)
    return seconds[chosen]
