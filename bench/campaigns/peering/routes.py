"""Trials of planning as Markdown tables and as a picture."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile

import charts
from charts import PERCENT, Axis, Chart
from peering.trial import Trial

#: An engine's trials of a set, by target.
ByTarget = dict[str, Trial]

#: Limits in seconds of processor time; the tables show those that were searched.
LIMITS = (0.1, 0.3, 1.0, 5.0, 15.0)


def markdown(trials: Sequence[Trial], settings: Mapping[str, object]) -> str:
    """A table for each set: targets that each engine solves within each limit, and its costs."""
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
        "true. Median: the time within which half of the targets are solved. Confirmed: of those",
        "solved within the longest limit, the targets whose likeliest route has only steps whose",
        "product is among the three likeliest answers of the bundled `product`.",
        "",
        f"`python bench/campaigns/planning.py` on: {about}.",
        "",
        "![Targets solved within so much processor time](planning.svg)",
    ]
    for name, engines in _sets(trials).items():
        lines += ["", f"## {name}", "", *_table(engines)]
    lines += [
        "",
        "A faster model gains time. With much time, all engines solve the same targets, and none",
        "solves most of the hard ones.",
    ]
    return "\n".join(lines) + "\n"


def _table(engines: Mapping[str, ByTarget]) -> Iterator[str]:
    columns = {limit: common(engines, limit) for limit in LIMITS}
    columns = {limit: targets for limit, targets in columns.items() if targets}
    heads = [f"{limit:g} s of {len(targets)}" for limit, targets in columns.items()]
    heads += ["confirmed", "median", "expansions a second", "model's share"]
    yield f"| engine | {' | '.join(heads)} |"
    yield "|---|" + "---:|" * len(heads)
    rows = []
    for engine, taken in engines.items():
        counts = [solved(taken, targets, limit) for limit, targets in columns.items()]
        trials = [taken[target] for target in columns[min(columns)]]
        seconds = sum(trial.seconds for trial in trials)
        half = next((first for first, share in curve(trials) if share >= 0.5), None)
        cells = (
            engine,
            *("" if count is None else str(count) for count in counts),
            confirmed(taken, columns, counts),
            "none" if half is None else f"{half:.2f} s",
            f"{sum(trial.expansions for trial in trials) / seconds:.1f}",
            f"{sum(trial.model_seconds for trial in trials) / seconds:.0%}",
        )
        rows.append((counts[:2][::-1], f"| {' | '.join(cells)} |"))
    yield from (row for _, row in sorted(rows, key=lambda row: row[0], reverse=True))


def solved(taken: ByTarget, targets: Collection[str], limit: float) -> int | None:
    """The number of targets with a route within a limit; None if an engine searched for less."""
    if not all(target in taken and taken[target].decides(limit) for target in targets):
        return None
    firsts = (taken[target].first for target in targets)
    return sum(first is not None and first <= limit for first in firsts)


def confirmed(taken: ByTarget, columns: Mapping[float, list[str]], counts: list[int | None]) -> str:
    """How many of the targets solved within the longest limit are confirmed; "" if unknown."""
    pairs = zip(columns.items(), counts, strict=True)
    (limit, targets), count = [pair for pair in pairs if pair[1] is not None][-1]
    solved_by = [taken[each] for each in targets if (taken[each].first or math.inf) <= limit]
    if any(trial.confirmed is None for trial in solved_by):
        return ""
    return f"{sum(bool(trial.confirmed) for trial in solved_by)} of {count}"


def common(engines: Mapping[str, ByTarget], limit: float) -> list[str]:
    """Targets whose result at a limit is known for all engines that searched for so long.

    The list ends before the first target whose result is unknown: in a stopped run, the known
    results after it are only those of targets with a route.
    """
    searched = [
        taken for taken in engines.values() if any(trial.limit >= limit for trial in taken.values())
    ]

    def is_known(target: str) -> bool:
        return all(target in taken and taken[target].decides(limit) for taken in searched)

    most: ByTarget = max(searched, key=len, default={})
    return list(takewhile(is_known, most))


def curve(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """Seconds and the share of targets solved within them (Kaplan and Meier 1958).

    A target without a route counts as unsolved until its limit and is censored then; so is a target
    that the last expansion solved after the limit.
    """
    ends = [(math.inf if each.first is None else each.first, each.limit) for each in trials]
    ends.sort(key=min)
    unsolved, points = 1.0, []
    for number, (first, limit) in enumerate(ends):
        if first <= limit:
            unsolved *= 1 - 1 / (len(ends) - number)
            points.append((first, 1 - unsolved))
    return points


def _sets(trials: Sequence[Trial]) -> dict[str, dict[str, ByTarget]]:
    """Trials by set, engine and target; of several, the one with the longest limit."""
    found: dict[str, dict[str, ByTarget]] = {}
    for trial in sorted(trials, key=lambda trial: trial.limit):
        found.setdefault(trial.set, {}).setdefault(trial.engine, {})[trial.target] = trial
    return found


# -------------------------------------------------------------------------------------- picture

_LEAST = 0.05


def picture(trials: Sequence[Trial]) -> str:
    """An SVG: the share of targets solved against processor time, a curve for each engine.

    Ends at the longest limit that half of the targets were given: later steps would be too large.
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
    """The curve, extended to the longest limit of a search without a route."""
    points = curve(trials)
    end = max((trial.limit for trial in trials if trial.first is None), default=0.0)
    if points and end > points[-1][0]:
        points.append((end, points[-1][1]))
    return points


def _chart(name: str, group: Mapping[str, ByTarget], seconds: Axis) -> Chart:
    targets = common(group, LIMITS[0])
    curves = {
        engine: _to_the_end([taken[target] for target in targets])
        for engine, taken in group.items()
    }
    return Chart(f"{name}, {len(targets)} targets", seconds, PERCENT, curves, steps=True)
