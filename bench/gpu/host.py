"""The host's part of a query: the Python functions that take longest, and the time without them."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterator
from statistics import median
from time import perf_counter
from typing import Any

import subject
from place import Place, Row
from times import spin

_CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("product", {"drafter": "tree"}),
    ("retro", {"drafter": "tree", "n_best": 10}),
)


def run(place: Place) -> Iterator[Row]:
    """Milliseconds a call, and microseconds a query of the functions, for 1 and for 32 queries."""
    for name, options in _CASES[: 1 if place.few else None]:
        checkpoint = subject.checkpoint(name, place.few)[0]
        model = place.model(checkpoint, "bfloat16")
        for batch_size in (1,) if place.few else (1, 32):
            queries = subject.queries(checkpoint, batch_size)
            limits = {"batch_size": batch_size, "max_length": 8 if place.few else 120}
            spans = []
            spin(place, 0.1)
            for _ in range(3 if place.few else 40):
                begin = perf_counter()
                model.predict(queries, **limits, **options)
                spans.append(perf_counter() - begin)
            with cProfile.Profile() as profile:
                for _ in range(3 if place.few else 40):
                    model.predict(queries, **limits, **options)
            yield {
                "model": name,
                **options,
                "batch_size": batch_size,
                "milliseconds_a_query": 1e3 * median(spans) / batch_size,
                "microseconds_a_query": _slowest(profile, len(spans) * batch_size),
            }


def _slowest(profile: cProfile.Profile, queries: int) -> dict[str, float]:
    """Own time of the slowest functions, under the profiler."""
    entries: dict[tuple[str, int, str], Any] = vars(pstats.Stats(profile))["stats"]
    own = {key: 1e6 * value[2] / queries for key, value in entries.items()}
    most = sorted(own, key=lambda key: -own[key])[:40]
    return {f"{key[0].rpartition('/')[2]}:{key[1]} {key[2]}": own[key] for key in most}
