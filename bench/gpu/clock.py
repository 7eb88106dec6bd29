"""Clocks of a device: the wall time of work, and the time in which the device was busy with it."""

from collections.abc import Callable, Iterable
from statistics import median
from time import perf_counter

import torch
from place import Place
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile


def spin(place: Place, seconds: float = 0.5) -> None:
    """Keep the device busy: its clocks rise from idle only under work."""
    if place.device != "cuda":
        return
    square = torch.ones(2048, 2048, device="cuda")
    end = perf_counter() + seconds
    while perf_counter() < end:
        square @ square
        place.wait()


def wall_seconds(place: Place, work: Callable[[], object], repeats: int) -> float:
    """Median wall time of `work` until the device is done; the first call does not count."""
    spans = []
    work()
    spin(place, 0.02)
    for _ in range(1 if place.few else repeats):
        place.wait()
        begin = perf_counter()
        work()
        place.wait()
        spans.append(perf_counter() - begin)
    return median(spans)


def queued_microseconds(place: Place, work: Callable[[], None], repeats: int) -> float:
    """Device time of one of many queued calls, measured by events."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    work()
    spin(place, 0.02)
    begin.record()
    for _ in range(repeats):
        work()
    end.record()
    end.synchronize()
    milliseconds: float = begin.elapsed_time(end)
    return 1e3 * milliseconds / repeats


def busy_seconds(place: Place, work: Callable[[], object]) -> float:
    """The time in which the device ran a kernel or a copy of `work`, as a profiler saw it.

    Kernels that overlap, as dependent launches do, count once. Raises RuntimeError if it saw none.
    """
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        work()
        place.wait()
    assert trace.profiler is not None
    # Not `trace.events()`, which takes a tenth of a millisecond an event.
    events = trace.profiler.kineto_results.events()
    spans = [(e.start_ns(), e.end_ns()) for e in events if e.device_type() == DeviceType.CUDA]
    if not spans:
        raise RuntimeError("the profiler saw no work on the device")
    return covered(spans) / 1e9


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """The length of the union of spans."""
    total, reached = 0, -1
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total
