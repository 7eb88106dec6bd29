"""Charts as SVG: curves over two axes, the charts one below the other, with one legend."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#c2410c", "#ea580c", "#fb923c", "#1d4ed8", "#60a5fa", "#0f766e", "#64748b", "#a3a3a3")
_WIDTH, _HEIGHT, _LEFT, _GAP = 640, 220, 46, 70
_RIGHT = _WIDTH - 20


@dataclass(frozen=True)
class Axis:
    """The range of an axis, and labels at some values. A logarithmic axis begins above 0."""

    least: float
    most: float
    marks: Mapping[float, str]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """The position of a value: 0 at `least`, 1 at `most`."""
        if not self.logarithmic:
            return (value - self.least) / (self.most - self.least)
        return math.log(max(value, self.least) / self.least) / math.log(self.most / self.least)


#: The axis of a share.
PERCENT = Axis(0, 1, {percent / 100: f"{percent} %" for percent in range(0, 101, 25)})


@dataclass(frozen=True)
class Chart:
    """Curves by name, with their points from left to right.

    steps: a curve begins at the bottom left and stays level between its points.
    """

    title: str
    x: Axis
    y: Axis
    curves: Mapping[str, Sequence[tuple[float, float]]]
    steps: bool = False


def picture(charts: Sequence[Chart], names: Sequence[str], caption: str) -> str:
    """An SVG. Curves of one name have one colour in all charts, by the name's index in `names`."""
    colours = dict(zip(names, COLOURS, strict=False))
    parts: list[str] = []
    y = 10
    for chart in charts:
        title = escape(chart.title)
        parts.append(f'<text x="{_LEFT}" y="{y + 14}" font-weight="bold">{title}</text>')
        parts += _axes(chart, y + 24)
        for name, points in chart.curves.items():
            draw = _steps if chart.steps else _lines
            path = "".join(draw(chart, points, y + 24))
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


def _x(chart: Chart, value: float) -> float:
    return _LEFT + chart.x.share(value) * (_RIGHT - _LEFT)


def _y(chart: Chart, value: float, top: int) -> float:
    return top + _HEIGHT * (1 - chart.y.share(value))


def _axes(chart: Chart, top: int) -> Iterator[str]:
    for value, mark in chart.y.marks.items():
        y = _y(chart, value, top)
        yield f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#e2e8f0"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(mark)}</text>'
    for value, mark in chart.x.marks.items():
        x = _x(chart, value)
        yield f'<path d="M{x:.1f} {top}V{top + _HEIGHT}" stroke="#e2e8f0"/>'
        y = top + _HEIGHT + 16
        yield f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{escape(mark)}</text>'


def _steps(chart: Chart, points: Sequence[tuple[float, float]], top: int) -> Iterator[str]:
    """Draws up to the last point, or to the end of the axis if that comes first."""
    yield f"M{_LEFT} {top + _HEIGHT}"
    for x, y in points:
        yield f"H{_x(chart, min(x, chart.x.most)):.1f}"
        if x > chart.x.most:
            break
        yield f"V{_y(chart, y, top):.1f}"


def _lines(chart: Chart, points: Sequence[tuple[float, float]], top: int) -> Iterator[str]:
    for number, (x, y) in enumerate(points):
        yield f"{'L' if number else 'M'}{_x(chart, x):.1f} {_y(chart, y, top):.1f}"
