"""Time on the device by kernel, in whole queries: what a round is made of."""

from __future__ import annotations

from typing import Any

import subject
import torch
from torch.profiler import ProfilerActivity, profile

from molspec.predictor import Model

_CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("product", {"drafter": "tree"}),
    ("product", {"drafter": "windows"}),
    ("retro", {"beam": "standard", "n_best": 10}),
    ("retro", {"drafter": "tree", "n_best": 10}),
)


def run(device: str, few: bool) -> dict[str, Any]:
    """Calls and microseconds of every kernel, for one query and for 32 together."""
    results = []
    for name, options in _CASES[: 1 if few else None]:
        checkpoint = subject.padded(subject.checkpoint(name, few)[0])
        model = Model(checkpoint, "bfloat16", device)
        for batch_size in (1,) if few else (1, 32):
            queries = subject.queries(checkpoint, 2 if few else max(4, batch_size))
            limits = {"batch_size": batch_size, "max_length": 20 if few else 120}
            model.predict(queries, **limits, **options)  # captures the graphs
            kernels = _kernels(device, model, queries, {**limits, **options})
            row = {"model": name, **options, "batch_size": batch_size, "queries": len(queries)}
            results.append({**row, "kernels": kernels})
    return {"kernels": results}


def _kernels(
    device: str, model: Model, queries: list[str], options: dict[str, Any]
) -> dict[str, dict[str, float]]:
    """By name, those that take most first."""
    activity = ProfilerActivity.CPU if device == "cpu" else ProfilerActivity.CUDA
    with profile(activities=[activity]) as trace:
        calls = model.predict(queries, **options).statistics.decoder_calls
        if device != "cpu":
            torch.cuda.synchronize()
    found: dict[str, dict[str, float]] = {}
    for event in trace.key_averages():
        total = event.self_cpu_time_total if device == "cpu" else event.self_device_time_total
        found[event.key] = {
            "calls": event.count,
            "microseconds_a_call": total / max(event.count, 1),
            "microseconds_a_decoder_call": total / max(calls, 1),
        }
    most = sorted(found, key=lambda name: -found[name]["microseconds_a_decoder_call"])
    return {name: found[name] for name in most[:40]}
