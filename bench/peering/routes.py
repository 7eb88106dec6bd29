"""Trials of planning as Markdown tables and as a picture."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile

import charts
from charts import PERCENT, Axis, Chart
from peering.trial import Trial

#: What an engine took of a set, by target.
Taken = dict[str, Trial]

#: Limits of processor seconds, of which those within what was searched are shown.
LIMITS = (0.1, 0.3, 1.0, 5.0, 15.0)


def markdown(trials: Sequence[Trial], settings: Mapping[str, object]) -> str:
    """A table a set: targets that each engine solves within each limit, and what its time is."""
    about = ", ".join(f"{name} {value}" for name, value in settings.items())
    lines = [
        "# Planning with molspec and its peers",
        "",
        "Syntheseus' Retro* with its own settings and the weights of the bundled `retro`; a search",
        "ends with its first route. One thread; time is the processor's, of planner and model.",
        "Targets and stocks are PaRoutes' n1 and n5 (Genheden and Bjerrum 2022) and the 190 hard",
        "targets of Retro* (Chen et al. 2020) with the stock of n1. Within a limit those targets",
        "count that every engine took for so long; an engine without a figure was given less time.",
        "Reactions whose reactants lack atoms of the product are left out, unless any_reaction is",
        "true. Median: the time within which half of the targets are solved.",
        "",
        f"`python bench/planning.py` on: {about}.",
        "",
        "![Targets solved within so much processor time](planning.svg)",
    ]
    for name, engines in _sets(trials).items():
        lines += ["", f"## {name}", "", *_table(engines)]
    return "\n".join(lines) + "\n"


def _table(engines: Mapping[str, Taken]) -> Iterator[str]:
    columns = {limit: common(engines, limit) for limit in LIMITS}
    columns = {limit: targets for limit, targets in columns.items() if targets}
    heads = [f"{limit:g} s of {len(targets)}" for limit, targets in columns.items()]
    yield f"| engine | {' | '.join(heads)} | median | expansions a second | model's share |"
    yield "|---|" + "---:|" * (len(heads) + 3)
    rows = []
    for engine, taken in engines.items():
        counts = [solved(taken, targets, limit) for limit, targets in columns.items()]
        trials = [taken[target] for target in columns[min(columns)]]
        seconds = sum(trial.seconds for trial in trials)
        half = next((first for first, share in curve(trials) if share >= 0.5), None)
        cells = (
            engine,
            *("" if count is None else str(count) for count in counts),
            "none" if half is None else f"{half:.2f} s",
            f"{sum(trial.expansions for trial in trials) / seconds:.1f}",
            f"{sum(trial.model_seconds for trial in trials) / seconds:.0%}",
        )
        rows.append((counts[:2][::-1], f"| {' | '.join(cells)} |"))
    yield from (row for _, row in sorted(rows, key=lambda row: row[0], reverse=True))


def solved(taken: Taken, targets: Collection[str], limit: float) -> int | None:
    """Targets with a route within a limit; None where an engine was given less time."""
    if not all(target in taken and taken[target].tells(limit) for target in targets):
        return None
    firsts = (taken[target].first for target in targets)
    return sum(first is not None and first <= limit for first in firsts)


def common(engines: Mapping[str, Taken], limit: float) -> list[str]:
    """Targets of which all engines that were given so much time tell what came of it.

    Those up to the first of which one does not tell: of a run that was stopped, what comes behind
    it are only targets with a route.
    """
    given = [
        taken for taken in engines.values() if any(trial.limit >= limit for trial in taken.values())
    ]

    def told(target: str) -> bool:
        return all(target in taken and taken[target].tells(limit) for taken in given)

    most: Taken = max(given, key=len, default={})
    return list(takewhile(told, most))


def curve(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """Seconds and the share of targets solved within them (Kaplan and Meier 1958).

    A target that was given up counts among those that are still to be solved until then; one that
    the last expansion solved, which ended too late, was.
    """
    ends = [(math.inf if each.first is None else each.first, each.limit) for each in trials]
    ends.sort(key=min)
    unsolved, points = 1.0, []
    for number, (first, limit) in enumerate(ends):
        if first <= limit:
            unsolved *= 1 - 1 / (len(ends) - number)
            points.append((first, 1 - unsolved))
    return points


def _sets(trials: Sequence[Trial]) -> dict[str, dict[str, Taken]]:
    """Trials by set, engine and target: of several, the one that was given most time."""
    found: dict[str, dict[str, Taken]] = {}
    for trial in sorted(trials, key=lambda trial: trial.limit):
        found.setdefault(trial.set, {}).setdefault(trial.engine, {})[trial.target] = trial
    return found


# -------------------------------------------------------------------------------------- picture

_LEAST = 0.05


def picture(trials: Sequence[Trial]) -> str:
    """SVG: the share of targets solved against processor time, a curve an engine.

    It ends where fewer than half of the targets were given more time: their steps are too large.
    """
    sets = _sets(trials)
    longest = max(
        limit
        for limit in LIMITS
        for each in sets.values()
        if 2 * len(common(each, limit)) >= len(common(each, LIMITS[0]))
    )
    marks = {limit: f"{limit:g} s" for limit in LIMITS if limit <= longest}
    seconds = Axis(_LEAST, longest, marks, logarithmic=True)
    ours = {trial.engine: trial.is_ours for trial in trials}
    engines = sorted(ours, key=lambda engine: (not ours[engine], engine))
    return charts.picture(
        [_chart(name, group, seconds) for name, group in sets.items()],
        engines,
        "Targets solved within so much processor time; same weights, same planner",
    )


def _to_the_end(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """The curve, and where the last search was given up."""
    points = curve(trials)
    end = max((trial.limit for trial in trials if trial.first is None), default=0.0)
    if points and end > points[-1][0]:
        points.append((end, points[-1][1]))
    return points


def _chart(name: str, group: Mapping[str, Taken], seconds: Axis) -> Chart:
    targets = common(group, LIMITS[0])
    curves = {
        engine: _to_the_end([taken[target] for target in targets])
        for engine, taken in group.items()
    }
    return Chart(f"{name}, {len(targets)} targets", seconds, PERCENT, curves, steps=True)
