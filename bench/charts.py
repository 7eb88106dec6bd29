"""Charts as SVG: curves over two axes, the charts one below the other, with one legend."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#c2410c", "#ea580c", "#fb923c", "#1d4ed8", "#60a5fa", "#0f766e", "#64748b", "#a3a3a3")
_WIDTH, _HEIGHT, _LEFT, _GAP = 640, 220, 46, 70
_RIGHT = _WIDTH - 20


@dataclass(frozen=True)
class Axis:
    """From where to where, and texts at some values. Logarithmic ones begin above 0."""

    least: float
    most: float
    marks: Mapping[float, str]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Where a value lies: 0 at the least, 1 at the most."""
        if not self.logarithmic:
            return (value - self.least) / (self.most - self.least)
        return math.log(max(value, self.least) / self.least) / math.log(self.most / self.least)


#: Of shares.
PERCENT = Axis(0, 1, {percent / 100: f"{percent} %" for percent in range(0, 101, 25)})


@dataclass(frozen=True)
class Chart:
    """Curves by name, of points from left to right.

    steps: a curve begins at the left end of the bottom and keeps its height between its points.
    """

    title: str
    x: Axis
    y: Axis
    curves: Mapping[str, Sequence[tuple[float, float]]]
    steps: bool = False


def picture(charts: Sequence[Chart], names: Sequence[str], caption: str) -> str:
    """SVG. Curves of a name have the same colour in all charts, by its place in `names`."""
    colours = dict(zip(names, COLOURS, strict=False))
    parts: list[str] = []
    y = 10
    for chart in charts:
        title = escape(chart.title)
        parts.append(f'<text x="{_LEFT}" y="{y + 14}" font-weight="bold">{title}</text>')
        parts += _axes(chart, y + 24)
        for name, points in chart.curves.items():
            way = _steps if chart.steps else _lines
            path = "".join(way(chart, points, y + 24))
            parts.append(
                f'<path d="{path}" fill="none" stroke="{colours[name]}" stroke-width="2"/>'
            )
        y += _HEIGHT + _GAP
    for name in names:
        parts.append(f'<rect x="{_LEFT}" y="{y}" width="14" height="4" fill="{colours[name]}"/>')
        parts.append(f'<text x="{_LEFT + 20}" y="{y + 7}">{escape(name)}</text>')
        y += 18
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 26}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n'
        f'<text x="{_LEFT}" y="{y + 14}" fill="#475569">{escape(caption)}</text>\n</svg>\n'
    )


def _right(chart: Chart, value: float) -> float:
    return _LEFT + chart.x.share(value) * (_RIGHT - _LEFT)


def _down(chart: Chart, value: float, top: int) -> float:
    return top + _HEIGHT * (1 - chart.y.share(value))


def _axes(chart: Chart, top: int) -> Iterator[str]:
    for value, mark in chart.y.marks.items():
        y = _down(chart, value, top)
        yield f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#e2e8f0"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(mark)}</text>'
    for value, mark in chart.x.marks.items():
        x = _right(chart, value)
        yield f'<path d="M{x:.1f} {top}V{top + _HEIGHT}" stroke="#e2e8f0"/>'
        y = top + _HEIGHT + 16
        yield f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{escape(mark)}</text>'


def _steps(chart: Chart, points: Sequence[tuple[float, float]], top: int) -> Iterator[str]:
    """To the last point, or to the end of the axis where that comes first."""
    yield f"M{_LEFT} {top + _HEIGHT}"
    for x, y in points:
        yield f"H{_right(chart, min(x, chart.x.most)):.1f}"
        if x > chart.x.most:
            break
        yield f"V{_down(chart, y, top):.1f}"


def _lines(chart: Chart, points: Sequence[tuple[float, float]], top: int) -> Iterator[str]:
    for number, (x, y) in enumerate(points):
        yield f"{'L' if number else 'M'}{_right(chart, x):.1f} {_down(chart, y, top):.1f}"
