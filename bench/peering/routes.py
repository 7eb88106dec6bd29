"""Trials of planning as Markdown tables and as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from statistics import median

from peering.trial import Trial

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
        "targets of Retro* (Chen et al. 2020) with the stock of n1. Only targets that every engine",
        "of a set has taken count.",
        "",
        f"`python bench/planning.py` on: {about}.",
    ]
    for name, group in _sets(trials).items():
        count = len(next(iter(group.values())))
        lines += ["", f"## {name}, {count} targets", "", *_table(group)]
    return "\n".join(lines) + "\n"


def _table(group: Mapping[str, Sequence[Trial]]) -> Iterator[str]:
    limits = _limits(max(trial.seconds for trials in group.values() for trial in trials))
    heads = [f"{limit:g} s" for limit in limits]
    yield f"| engine | {' | '.join(heads)} | median | expansions a second | model's share |"
    yield "|---|" + "---:|" * (len(limits) + 3)
    ranked = sorted(group.items(), key=lambda item: -solved(item[1], limits[-1]))
    for engine, trials in sorted(ranked, key=lambda item: -solved(item[1], limits[1])):
        seconds = sum(trial.seconds for trial in trials)
        firsts = [trial.first if trial.first is not None else math.inf for trial in trials]
        cells = (
            engine,
            *(str(solved(trials, limit)) for limit in limits),
            f"{median(firsts):.2f} s" if median(firsts) < math.inf else "none",
            f"{sum(trial.expansions for trial in trials) / seconds:.1f}",
            f"{sum(trial.model_seconds for trial in trials) / seconds:.0%}",
        )
        yield f"| {' | '.join(cells)} |"


def solved(trials: Sequence[Trial], limit: float) -> int:
    """Targets with a route within a limit."""
    return sum(trial.first is not None and trial.first <= limit for trial in trials)


def _limits(longest: float) -> list[float]:
    return [limit for limit in LIMITS if limit <= 1.1 * longest] or [LIMITS[0]]


def _sets(trials: Sequence[Trial]) -> dict[str, dict[str, list[Trial]]]:
    """Trials by set and engine, of the targets that every engine of the set has taken."""
    found: dict[str, dict[str, dict[str, Trial]]] = {}
    for trial in trials:
        found.setdefault(trial.set, {}).setdefault(trial.engine, {})[trial.target] = trial
    sets: dict[str, dict[str, list[Trial]]] = {}
    for name, engines in found.items():
        common = set.intersection(*(set(taken) for taken in engines.values()))
        if common:
            sets[name] = {
                engine: [trial for target, trial in taken.items() if target in common]
                for engine, taken in engines.items()
            }
    return sets


# -------------------------------------------------------------------------------------- picture

_WIDTH, _HEIGHT, _LEFT, _GAP = 640, 220, 46, 70
_LEAST = 0.05
_COLOURS = ("#c2410c", "#ea580c", "#fb923c", "#1d4ed8", "#60a5fa", "#0f766e", "#64748b", "#a3a3a3")


def picture(trials: Sequence[Trial], longest: float) -> str:
    """SVG: the share of targets solved against processor time, a curve an engine."""
    parts: list[str] = []
    y = 10
    sets = _sets(trials)
    ours = {trial.engine: trial.is_ours for trial in trials}
    engines = sorted(ours, key=lambda engine: (not ours[engine], engine))
    colours = dict(zip(engines, _COLOURS, strict=False))
    for name, group in sets.items():
        count = len(next(iter(group.values())))
        title = escape(f"{name}, {count} targets")
        parts.append(f'<text x="{_LEFT}" y="{y + 14}" font-weight="bold">{title}</text>')
        parts += _axes(y + 24, longest)
        for engine, taken in group.items():
            parts.append(_curve(taken, y + 24, longest, colours[engine]))
        y += _HEIGHT + _GAP
    for engine in engines:
        parts.append(f'<rect x="{_LEFT}" y="{y}" width="14" height="4" fill="{colours[engine]}"/>')
        parts.append(f'<text x="{_LEFT + 20}" y="{y + 7}">{escape(engine)}</text>')
        y += 18
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 26}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n'
        f'<text x="{_LEFT}" y="{y + 14}" fill="#475569">Targets solved within so much processor '
        "time; same weights, same planner</text>\n</svg>\n"
    )


def _place(seconds: float, longest: float) -> float:
    share = math.log(max(seconds, _LEAST) / _LEAST) / math.log(longest / _LEAST)
    return _LEFT + share * (_WIDTH - _LEFT - 20)


def _axes(top: int, longest: float) -> Iterator[str]:
    for percent in range(0, 101, 25):
        y = top + _HEIGHT * (1 - percent / 100)
        yield f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - 20}" stroke="#e2e8f0"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>'
    for limit in LIMITS:
        if limit <= longest:
            x = _place(limit, longest)
            yield f'<path d="M{x:.1f} {top}V{top + _HEIGHT}" stroke="#e2e8f0"/>'
            y = top + _HEIGHT + 16
            yield f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{limit:g} s</text>'


def _curve(trials: Sequence[Trial], top: int, longest: float, colour: str) -> str:
    firsts = sorted(trial.first for trial in trials if trial.first is not None)
    points = [f"M{_LEFT} {top + _HEIGHT}"]
    for number, first in enumerate(firsts, start=1):
        points.append(f"H{_place(first, longest):.1f}")
        points.append(f"V{top + _HEIGHT * (1 - number / len(trials)):.1f}")
    points.append(f"H{_WIDTH - 20}")
    return f'<path d="{"".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>'
