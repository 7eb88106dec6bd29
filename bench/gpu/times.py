"""Times of a step by its nodes, and of a query by batch size, beside plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import plain
import subject
import torch

from molspec.checkpoints import Checkpoint
from molspec.model.transformer import Transformer
from molspec.predictor import Model


def _seconds(device: str, work: Callable[[], object], repeats: int) -> float:
    """Median wall time of `work`, the device waited for; the first call is not counted."""
    spans = []
    for _ in range(repeats + 1):
        _wait(device)
        begin = perf_counter()
        work()
        _wait(device)
        spans.append(perf_counter() - begin)
    return median(spans[1:])


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def _checkpoint(name: str, few: bool) -> Checkpoint:
    return subject.padded(subject.checkpoint(name, few)[0])


def _steps(device: str, dtype: str, few: bool) -> list[dict[str, Any]]:
    """A step over nodes behind paths of 40 tokens of one query, as the decode loop calls it."""
    model = Model(_checkpoint("product", few), dtype, device)
    session = model.engine.session(1)
    session.encode([0], [[4] * 60])
    results = []
    for count in (1, 8) if few else (1, 8, 16, 32, 64, 128, 512):
        # Forty tokens already decoded share slots 0 to 39; each node has a slot of its own behind.
        nodes = np.array([[4, 40, 41 * i, 0] for i in range(count)], dtype=np.int32)
        paths = np.array([[*range(40), 48 + i] for i in range(count)], dtype=np.int32).ravel()
        blocks = (48 + count + 15) // 16
        step = partial(session.step, nodes, paths, blocks)
        seconds = _seconds(device, step, 3 if few else 50)
        results.append({"nodes": count, "microseconds": 1e6 * seconds})
    return results


def _queries(device: str, dtype: str, few: bool) -> list[dict[str, Any]]:
    results = []
    cases: list[tuple[str, dict[str, Any]]] = [
        ("product", {"drafter": "none"}),
        ("product", {"drafter": "tree"}),
        ("product", {"drafter": "windows"}),
        *(("retro", {"n_best": n, "drafter": "tree"}) for n in (5, 10, 25)),
        *(("retro", {"n_best": n, "beam": "standard"}) for n in (5, 10, 25)),
        ("retro", {"n_best": 5, "beam": "sbs"}),
    ]
    for name, options in cases[: 2 if few else None]:
        checkpoint = _checkpoint(name, few)
        model = Model(checkpoint, dtype, device)
        for batch_size in (1, 8) if few else (1, 8, 32, 128):
            count = 4 if few else {1: 12, 8: 24}.get(batch_size, batch_size)
            queries = subject.queries(checkpoint, count)
            limits = {
                "batch_size": batch_size,
                "max_length": 20 if few else 120,
                "canonical_queries": False,  # they are: RDKit's time is the host's
            }
            run = partial(model.predict, queries, **limits, **options)
            seconds = _seconds(device, run, 1 if few else 3) / len(queries)
            row = {"model": name, **options, "batch_size": batch_size}
            row["milliseconds_a_query"] = 1e3 * seconds
            if dtype == "bfloat16" and batch_size <= 32:
                with subject.rounds_on_host(model):
                    seconds = _seconds(device, run, 1 if few else 3) / len(queries)
                row["milliseconds_with_rounds_on_host"] = 1e3 * seconds
            results.append(row)
    return results


def _baselines(device: str, dtype: str, few: bool) -> list[dict[str, Any]]:
    """Greedy decoding of the product model by the training twin's modules."""
    checkpoint = _checkpoint("product", few)
    vocabulary = checkpoint.vocabulary
    twin = Transformer(checkpoint.spec, dropout=0.0, pad_id=vocabulary.pad_id).eval()
    twin.load_state_dict(dict(checkpoint.weights))
    twin = twin.to(device, subject.DTYPES[dtype])
    results = []
    for batch_size in (1, 4) if few else (1, 8, 32, 128):
        sources = [
            [vocabulary.bos_id, *vocabulary.encode(query), vocabulary.eos_id]
            for query in subject.queries(checkpoint, batch_size)
        ]
        ids = plain.pad(sources, vocabulary.pad_id, device)
        arguments = (twin, ids, vocabulary.bos_id, vocabulary.eos_id, 20 if few else 120)
        for decode in (plain.without_cache, plain.with_cache):
            seconds = _seconds(device, partial(decode, *arguments), 1) / batch_size
            row = {"what": decode.__name__, "batch_size": batch_size}
            results.append({**row, "milliseconds_a_query": 1e3 * seconds})
    return results


def run(device: str, few: bool) -> dict[str, Any]:
    """Everything in float32 and bfloat16, with the most memory that was taken."""
    report: dict[str, Any] = {"weights": subject.checkpoint("product", few)[1]}
    for dtype in ("bfloat16", "float32"):
        report[dtype] = {
            "steps": _steps(device, dtype, few),
            "queries": _queries(device, dtype, few),
            "plain_pytorch": _baselines(device, dtype, few),
        }
    if device != "cpu":
        report["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
    return report
