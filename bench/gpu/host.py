"""The host's part of a query: the Python functions that take longest, and the time without them."""

import cProfile
import pstats
from collections.abc import Iterator
from functools import partial
from typing import Any

import subject
from clock import wall_seconds
from place import Place, Row

_CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("product", {"drafter": "tree"}),
    ("retro", {"n_best": 10}),
)


def run(place: Place) -> Iterator[Row]:
    """Milliseconds a query, and microseconds a query of the functions, alone and in 32s."""
    for name, options in _CASES[: 1 if place.few else None]:
        model = place.model(subject.checkpoint(name, place.few)[0], "bfloat16")
        for batch_size in (1,) if place.few else (1, 32):
            queries = subject.queries(name, place.few, 2 if place.few else 64)
            more = {**options, "batch_size": batch_size, **subject.limits(place.few)}
            run = partial(model.predict, queries, **more)
            seconds = wall_seconds(place, run, 3)
            with cProfile.Profile() as profile:
                run()
            yield {
                "model": name,
                **options,
                "batch_size": batch_size,
                "milliseconds_a_query": 1e3 * seconds / len(queries),
                "microseconds_a_query": _slowest(profile, len(queries)),
            }


def _slowest(profile: cProfile.Profile, queries: int) -> dict[str, float]:
    """Own time of the slowest functions, under the profiler."""
    entries: dict[tuple[str, int, str], Any] = vars(pstats.Stats(profile))["stats"]
    own = {key: 1e6 * value[2] / queries for key, value in entries.items()}
    most = sorted(own, key=lambda key: -own[key])[:40]
    return {f"{key[0].rpartition('/')[2]}:{key[1]} {key[2]}": own[key] for key in most}
