"""Times of a step by its nodes, and of a query by batch size, beside plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import subject
import torch
from bench.plain_transformer import PlainTransformer, WithCache, WithoutCache, greedy
from place import DTYPES, Place, Row
from torch.nn.utils.rnn import pad_sequence

from molspec.checkpoints import Checkpoint
from molspec.engine.cuda.engine import Lease
from molspec.predictor import Model


def _seconds(place: Place, work: Callable[[], object], repeats: int) -> float:
    """Median wall time of `work` until the device is done; the first call does not count."""
    spans = []
    for _ in range(1 if place.few else repeats + 1):
        place.wait()
        begin = perf_counter()
        work()
        place.wait()
        spans.append(perf_counter() - begin)
    return median(spans[1:] or spans)


def _replay_microseconds(work: Callable[[], object], repeats: int) -> float:
    """Device time of one of many queued calls, measured by events."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    work()
    begin.record()
    for _ in range(repeats):
        work()
    end.record()
    end.synchronize()
    milliseconds: float = begin.elapsed_time(end)
    return 1e3 * milliseconds / repeats


def _checkpoint(name: str, place: Place, feed_forward: int) -> Checkpoint:
    """As bundled, or with the paper's feed-forward size."""
    found = subject.checkpoint(name, place.few)[0]
    return subject.padded(found) if feed_forward == subject.PAPER_FEED_FORWARD else found


def _steps(place: Place, dtype: str, feed_forward: int) -> Iterator[Row]:
    """A step over nodes after paths of 40 tokens of one query, as the decode loop calls it."""
    model = place.model(_checkpoint("product", place, feed_forward), dtype)
    session = model.engine.session(1)
    session.encode([0], [[4] * (20 if place.few else 60)])
    for count in (1, 8) if place.few else (1, 8, 16, 32, 64, 128, 512):
        # Forty tokens already decoded share slots 0 to 39; each node has its own slot after them.
        nodes = np.array([[4, 40, 41 * i, 0] for i in range(count)], dtype=np.int32)
        paths = np.array([[*range(40), 48 + i] for i in range(count)], dtype=np.int32).ravel()
        step = partial(session.step, nodes, paths, (48 + count + 15) // 16)
        row = {"nodes": count, "microseconds": 1e6 * _seconds(place, step, 50)}
        if place.device == "cuda":
            assert isinstance(session, Lease)
            inner = session._session
            size = inner.step_size(count)
            with inner.on_stream():
                replay = partial(inner.graphs.run, size, partial(inner._launch, size))
                row["microseconds_of_a_replay"] = _replay_microseconds(replay, 100)
        yield row


_CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("product", {"drafter": "none"}),
    ("product", {"drafter": "tree"}),
    ("product", {"drafter": "windows"}),
    *(("retro", {"n_best": n, "beam": "standard"}) for n in (5, 10, 25)),
    *(("retro", {"n_best": n, "drafter": "tree"}) for n in (5, 10, 25)),
    ("retro", {"n_best": 5, "beam": "sbs"}),
)


def _queries(place: Place, dtype: str, feed_forward: int) -> Iterator[Row]:
    for name, options in _CASES[: 2 if place.few else None]:
        checkpoint = _checkpoint(name, place, feed_forward)
        model = place.model(checkpoint, dtype)
        for batch_size in (1, 2) if place.few else (1, 8, 32, 128):
            count = 2 if place.few else {1: 12, 8: 24}.get(batch_size, batch_size)
            yield {
                "model": name,
                **options,
                "batch_size": batch_size,
                **_query(place, model, subject.queries(checkpoint, count), batch_size, options),
            }


def _query(
    place: Place, model: Model, queries: list[str], batch_size: int, options: dict[str, Any]
) -> Row:
    limits = {"batch_size": batch_size, "max_length": 5 if place.few else 120}
    run = partial(model.predict, queries, **limits, **options)
    row = {"milliseconds_a_query": 1e3 * _seconds(place, run, 3) / len(queries)}
    if batch_size <= 32 and not place.few:
        with subject.rounds_on_host(model):
            seconds = _seconds(place, run, 1) / len(queries)
        row["milliseconds_with_rounds_on_host"] = 1e3 * seconds
    return row


def _baselines(place: Place, dtype: str, feed_forward: int) -> Iterator[Row]:
    """Greedy decoding of the product model in plain PyTorch, with and without a cache."""
    checkpoint = _checkpoint("product", place, feed_forward)
    vocabulary = checkpoint.vocabulary
    begin = checkpoint.spec.decoder_start(vocabulary.bos_id)
    model = PlainTransformer(checkpoint).to(place.tensors, DTYPES[dtype])
    most = 20 if place.few else 120

    @torch.inference_mode()
    def decode(kind: type[WithCache | WithoutCache], ids: torch.Tensor) -> None:
        with torch.device(place.tensors):
            step = kind(model, ids, vocabulary.pad_id, 1)
            greedy(step, len(ids), begin, vocabulary.eos_id, most)

    for batch_size in (1,) if place.few else (1, 8, 32, 128):
        sources = [
            torch.tensor([begin, *vocabulary.encode(query), vocabulary.eos_id])
            for query in subject.queries(checkpoint, batch_size)
        ]
        ids = pad_sequence(sources, batch_first=True, padding_value=vocabulary.pad_id)
        ids = ids.to(place.tensors)
        for name, kind in (("without_cache", WithoutCache), ("with_cache", WithCache)):
            seconds = _seconds(place, partial(decode, kind, ids), 1) / batch_size
            row = {"what": name, "batch_size": batch_size}
            yield {**row, "milliseconds_a_query": 1e3 * seconds}


def run(place: Place) -> Iterator[Row]:
    """Time the most important case first: the bundled size in bfloat16."""
    for dtype, feed_forward in (
        ("bfloat16", 512),
        ("bfloat16", subject.PAPER_FEED_FORWARD),
        ("float32", 512),
    ):
        for part in (_steps, _queries, _baselines):
            for row in part(place, dtype, feed_forward):
                yield {"dtype": dtype, "feed_forward": feed_forward, **row}
    if place.device == "cuda":
        yield {"peak_memory_bytes": torch.cuda.max_memory_allocated()}
