"""Chooses the number of threads of a training on a CPU by measurement."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch

_ROUNDS = 3
#: More threads are used only if they save this share of the time: other programs may need them.
_WORTH = 0.1
#: After a round, numbers of threads that take this multiple of the least time are dropped.
_HOPELESS = 1.5


def fastest(run: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    """Set torch's threads to the fastest number, up to the current one; return the seconds.

    Threads of one step wait for each other: if another program uses one of the cores, a step on all
    of them can take ten times as long as a step on one.
    """
    most = torch.get_num_threads()
    doubled = [2**power for power in range(most.bit_length())]
    times: dict[int, list[float]] = {count: [] for count in sorted({*doubled, most})}
    torch.set_num_threads(1)
    run()  # the first run allocates memory
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
