"""Device time by kernel, over whole queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import subject
from place import Place, Row
from torch.profiler import ProfilerActivity, profile

from molspec.predictor import Model

_CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("product", {"drafter": "tree"}),
    ("product", {"drafter": "windows"}),
    ("retro", {"beam": "standard", "n_best": 10}),
    ("retro", {"drafter": "tree", "n_best": 10}),
)


def run(place: Place) -> Iterator[Row]:
    """Calls and microseconds of every kernel, for one query and for 32 together."""
    for name, options in _CASES[: 1 if place.few else None]:
        checkpoint = subject.checkpoint(name, place.few)[0]
        model = place.model(checkpoint, "bfloat16")
        for batch_size in (1,) if place.few else (1, 32):
            queries = subject.queries(checkpoint, 2 if place.few else max(4, batch_size))
            limits = {"batch_size": batch_size, "max_length": 8 if place.few else 120}
            model.predict(queries, **limits, **options)  # captures the graphs
            kernels = _kernels(place, model, queries, {**limits, **options})
            row = {"model": name, **options, "batch_size": batch_size, "queries": len(queries)}
            yield {**row, "kernels": kernels}


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
