"""Device time by kernel, over whole queries."""

from collections.abc import Iterator
from typing import Any

import subject
import torch
from place import Place, Row
from torch.profiler import ProfilerActivity, profile

from molspec.prediction.model import Model

_CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("product", {"drafter": "tree"}),
    ("retro", {"beam": "standard", "n_best": 10}),
)


def run(place: Place) -> Iterator[Row]:
    """Calls and microseconds of every kernel, for one query and for 32 together.

    Last with launches in place of graphs: a kernel that waits for its instructions is slower in a
    graph, where forty others ran since its last call, than among a few.
    """
    yield from _profiled(place, _CASES[: 1 if place.few else None], eager=False)
    if not place.few:
        yield from _profiled(place, _CASES, eager=True)


def _profiled(
    place: Place, cases: tuple[tuple[str, dict[str, Any]], ...], eager: bool
) -> Iterator[Row]:
    for name, options in cases:
        checkpoint = subject.checkpoint(name, place.few)[0]
        model = place.model(checkpoint, "bfloat16", eager)
        for batch_size in (1,) if place.few or eager else (1, 32):
            queries = subject.queries(name, place.few, 2 if place.few else max(4, batch_size))
            limits: dict[str, Any] = {"batch_size": batch_size, **subject.limits(place.few)}
            model.predict(queries, **limits, **options)  # captures the graphs
            kernels = _kernels(place, model, queries, {**limits, **options})
            row = {"model": name, **options, "batch_size": batch_size, "queries": len(queries)}
            yield {**row, "launched": eager, "kernels": kernels}


def _kernels(
    place: Place, model: Model, queries: list[str], options: dict[str, Any]
) -> dict[str, dict[str, float]]:
    """Calls and microseconds by kernel name, the slowest first."""
    on_device = place.device == "cuda"
    activity = ProfilerActivity.CUDA if on_device else ProfilerActivity.CPU
    with profile(activities=[activity]) as trace:
        calls = model.predict(queries, **options).statistics.decoder_calls
        place.wait()
    found: dict[str, dict[str, float]] = {}
    for event in trace.key_averages():
        total = event.self_device_time_total if on_device else event.self_cpu_time_total
        found[event.key] = {
            "calls": event.count,
            "microseconds_a_call": total / max(event.count, 1),
            "microseconds_a_decoder_call": total / max(calls, 1),
        }
    most = sorted(found, key=lambda name: -found[name]["microseconds_a_decoder_call"])
    return {name: found[name] for name in most[:40]}


def one_round(place: Place) -> Iterator[Row]:
    """The kernels of an encoded query and a few rounds, for a profiler that is told when."""
    cudart = torch.cuda.cudart() if place.device == "cuda" else None
    for name, options in _CASES[: 1 if place.few else None]:
        checkpoint = subject.checkpoint(name, place.few)[0]
        model = place.model(checkpoint, "bfloat16", eager=True)
        queries = subject.queries(name, place.few, 1)
        model.predict(queries, max_length=6, **options)  # loads the kernels
        if cudart is not None:
            cudart.cudaProfilerStart()
        calls = model.predict(queries, max_length=6, **options).statistics.decoder_calls
        place.wait()
        if cudart is not None:
            cudart.cudaProfilerStop()
        yield {"model": name, **options, "calls": calls}
