"""Charts of drafters' savings: latency against throughput, and speed-ups over the queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from statistics import quantiles

import charts
from charts import PERCENT, Axis, Chart
from own.drafters import Counts
from own.times import StageTimes


def picture(
    title: str,
    taken: Mapping[int, Mapping[str, StageTimes]],
    found: Mapping[str, Counts],
    shown: Sequence[str],
) -> str:
    """An SVG of the drafters `shown`: times by batch size, and counts."""
    return charts.picture(
        [_latency(title, taken, shown), _spread(title, found, shown)],
        shown,
        "Processor time on one thread; a query waits for all that are decoded with it",
    )


def _latency(
    title: str, taken: Mapping[int, Mapping[str, StageTimes]], shown: Sequence[str]
) -> Chart:
    """Queries a second, and milliseconds from a query to its answer: Little's law."""
    curves = {
        name: [(1e3 / found[name].all, batch * found[name].all) for batch, found in taken.items()]
        for name in shown
    }
    points = list(chain.from_iterable(curves.values()))
    batches = f"batches of {min(taken)} to {max(taken)}"
    return Chart(
        f"{title}: time to an answer against queries a second, {batches}",
        _axis_around([x for x, _ in points], lambda queries: f"{queries:g}/s"),
        _axis_around([y for _, y in points], _time),
        curves,
    )


def _time(milliseconds: float) -> str:
    return f"{milliseconds:g} ms" if milliseconds < 1000 else f"{milliseconds / 1000:g} s"


def _axis_around(values: Sequence[float], text: Callable[[float], str]) -> Axis:
    """A logarithmic axis that has room for the values, with marks at 1, 2 and 5."""
    first = math.floor(math.log10(min(values)))
    last = math.ceil(math.log10(max(values)))
    marks = [digit * 10.0**power for power in range(first, last + 1) for digit in (1, 2, 5)]
    least = max(mark for mark in marks if mark <= min(values))
    most = min(mark for mark in marks if mark >= max(values) and mark > least)
    labels = {mark: text(mark) for mark in marks if least <= mark <= most}
    return Axis(least, most, labels, logarithmic=True)


def _spread(title: str, found: Mapping[str, Counts], shown: Sequence[str]) -> Chart:
    """For each ratio, the share of queries that need at most that many times fewer calls."""
    curves = {name: _shares(found[name].saved) for name in shown}
    most = math.ceil(max(points[-1][0] for points in curves.values()))
    times = {float(mark): f"{mark}x" for mark in range(1, most + 1, 2)}
    return Chart(
        f"{title}: share of queries that take at most so many times fewer calls",
        Axis(0, most, times),
        PERCENT,
        curves,
        steps=True,
    )


def _shares(saved: Sequence[float]) -> list[tuple[float, float]]:
    """The percentiles of the values, each with the share of values up to it."""
    cuts = quantiles(saved, n=100, method="inclusive")
    return [*((cut, (index + 1) / 100) for index, cut in enumerate(cuts)), (max(saved), 1.0)]
