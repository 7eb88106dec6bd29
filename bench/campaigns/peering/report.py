"""Records of the comparison as Markdown tables and as a picture."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median


@dataclass(frozen=True)
class Origin:
    """What was measured: model, fingerprint of its weights, table of queries, and machine."""

    model: str
    weights: str
    table: str
    machine: dict[str, str | int]


@dataclass(frozen=True)
class Record:
    """A peer with a setting in a scenario: seconds a query in every round, and its answers.

    same_first and same_lists count queries whose first answer, or whole list, equals that of
    molspec in float32.
    """

    scenario: str
    threads: int
    peer: str
    setting: str
    seconds: list[float]
    queries: int
    same_first: int
    same_lists: int
    peak_bytes: int
    origin: Origin

    @property
    def milliseconds(self) -> float:
        """The median round."""
        return 1e3 * median(self.seconds)

    @property
    def is_ours(self) -> bool:
        """Whether it is molspec."""
        return self.peer == "molspec"


def markdown(
    records: Sequence[Record], scenarios: Sequence[str], curves: Mapping[str, Mapping[int, str]]
) -> str:
    """A summary of ratios, a table for each scenario and thread count, and one for each curve.

    curves: by name of a variable, the scenario at each of its values. Raises ValueError if records
    are from several machines, days or weights of a model.
    """
    origins = _origins(records)
    machine = next(iter(origins.values())).machine
    compared = [record for record in records if record.scenario in scenarios]
    lines = [
        "# molspec beside its peers",
        "",
        "Same weights, same queries, same threads; every peer in a process of its own, in turns,",
        f"median of {max(len(record.seconds) for record in records)} rounds. SMILES in, SMILES",
        "out. Ratios are to molspec's float32 in the same run; milliseconds belong to the machine.",
        "Answers are compared with molspec's float32. Every engine reads the queries as given;",
        "molspec's default also makes them canonical, which takes another 0.1 to 0.2 ms.",
        "CTranslate2 returns the first n finished hypotheses, not the n best, so its lists differ.",
        "`--scenarios` adds first answers and the curves.",
        "",
        f"`python bench/campaigns/peers.py {' '.join(_sets(origins.values()))} "
        "--json peers.json` on: "
        f"{', '.join(f'{name} {value}' for name, value in machine.items())}; weights "
        f"{', '.join(f'{o.model} {o.weights[:8]}' for o in origins.values())}.",
        "",
        *summary(compared),
    ]
    for (scenario, threads), group in _groups(compared).items():
        lines += ["", f"## {scenario}, {threads} thread{'s' * (threads > 1)}", ""]
        lines += _table(group)
    for name, curve in curves.items():
        lines += _curve(name, curve, records)
    return "\n".join(lines) + "\n"


def _origins(records: Sequence[Record]) -> dict[str, Origin]:
    """The origin of the records, by model."""
    origins = {record.origin.model: record.origin for record in records}
    for record in records:
        expected = origins[record.origin.model]
        if record.origin != expected or expected.machine != records[0].origin.machine:
            raise ValueError(
                f"{record.scenario}: measured on {record.origin}, others on {expected}: expected "
                "one machine, one day and the same weights; measure it again"
            )
    return origins


def _sets(origins: Iterable[Origin]) -> list[str]:
    """The arguments NAME=FILE of the command; a model with several shapes is named once."""
    return list(dict.fromkeys(f"{o.model.partition(',')[0]}={o.table}" for o in origins))


def _curve(name: str, curve: Mapping[int, str], records: Sequence[Record]) -> Iterator[str]:
    """Milliseconds a query of every engine at every measured value, on one thread."""
    found = {
        (record.scenario, f"{record.peer} {record.setting}"): record.milliseconds
        for record in records
        if record.threads == 1
    }
    values = [
        value for value, scenario in curve.items() if any(key[0] == scenario for key in found)
    ]
    engines = [
        engine
        for engine in dict.fromkeys(engine for _, engine in found)
        if all((curve[value], engine) in found for value in values)
    ]
    if not values:
        return
    yield from ("", f"## Milliseconds a query against {name}, 1 thread", "")
    yield f"| engine | {' | '.join(map(str, values))} |"
    yield "|---|" + "---:|" * len(values)
    for engine in engines:
        cells = (f"{found[curve[value], engine]:.1f}" for value in values)
        yield f"| {engine} | {' | '.join(cells)} |"


def summary(records: Sequence[Record]) -> Iterator[str]:
    """How many times faster molspec is than the best peer, by scenario."""
    yield (
        "| scenario | threads | best peer | ms | molspec float32 | ratio | molspec's best | ratio "
        "| best float32 peer | ratio of float32 |"
    )
    yield "|---|---:|---|---:|---:|---:|---:|---:|---|---:|"
    for (scenario, threads), group in _groups(records).items():
        ours = [record for record in group if record.is_ours]
        peers = [record for record in group if not record.is_ours]
        base = next(record for record in ours if record.setting == "float32")
        if not peers:
            continue
        fastest = min(ours, key=lambda record: record.milliseconds)
        best = min(peers, key=lambda record: record.milliseconds)
        full = [record for record in peers if record.setting.startswith("float32")]
        best_full = min(full, key=lambda record: record.milliseconds)
        cells = (
            scenario,
            str(threads),
            f"{best.peer} {best.setting}",
            f"{best.milliseconds:.1f}",
            f"{base.milliseconds:.1f}",
            f"{best.milliseconds / base.milliseconds:.2f}x",
            f"{fastest.milliseconds:.1f} ({fastest.setting})",
            f"{best.milliseconds / fastest.milliseconds:.2f}x",
            f"{best_full.peer} {best_full.setting}",
            f"{best_full.milliseconds / base.milliseconds:.2f}x",
        )
        yield f"| {' | '.join(cells)} |"


def _table(group: Sequence[Record]) -> Iterator[str]:
    base = next(r for r in group if r.is_ours and r.setting == "float32")
    yield "| engine | ms a query | best round | of molspec | same first | same list | peak MB |"
    yield "|---|" + "---:|" * 6
    for record in sorted(group, key=lambda record: record.milliseconds):
        cells = (
            f"{record.peer} {record.setting}",
            f"{record.milliseconds:.1f}",
            f"{1e3 * min(record.seconds):.1f}",
            f"{record.milliseconds / base.milliseconds:.2f}",
            f"{record.same_first / record.queries:.0%}",
            f"{record.same_lists / record.queries:.0%}",
            f"{record.peak_bytes / 2**20:.0f}" if record.peak_bytes else "",
        )
        yield f"| {' | '.join(cells)} |"


def _groups(records: Sequence[Record]) -> dict[tuple[str, int], list[Record]]:
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        groups.setdefault((record.scenario, record.threads), []).append(record)
    return groups


# -------------------------------------------------------------------------------------- picture

_WIDTH, _LABEL, _ROW, _GAP = 720, 190, 18, 34
_OURS, _THEIRS = "#c2410c", "#94a3b8"


def picture(records: Sequence[Record], scenarios: Sequence[str]) -> str:
    """An SVG: milliseconds a query as bars, for the best setting of every engine, on one thread."""
    parts: list[str] = []
    y = 8
    for scenario in scenarios:
        group = [r for r in records if r.scenario == scenario and r.threads == 1]
        if not group:
            continue
        best: dict[str, Record] = {}
        for record in sorted(group, key=lambda record: -record.milliseconds):
            best[record.peer] = record
        bars = sorted(best.values(), key=lambda record: record.milliseconds)
        parts.append(f'<text x="8" y="{y + 16}" font-weight="bold">{escape(scenario)}</text>')
        y += 24
        scale = (_WIDTH - _LABEL - 70) / bars[-1].milliseconds
        for record in bars:
            parts += _bar(record, y, scale)
            y += _ROW
        y += _GAP - _ROW
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 20}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n'
        f'<text x="8" y="{y + 10}" fill="#475569">ms a query on one thread, the best setting of '
        f"each; same weights and queries</text>\n</svg>\n"
    )


def _bar(record: Record, y: int, scale: float) -> Iterator[str]:
    colour = _OURS if record.is_ours else _THEIRS
    width = max(1.0, record.milliseconds * scale)
    label = escape(f"{record.peer} {record.setting}")
    yield f'<text x="{_LABEL - 6}" y="{y + 12}" text-anchor="end">{label}</text>'
    yield f'<rect x="{_LABEL}" y="{y + 2}" width="{width:.1f}" height="13" fill="{colour}"/>'
    yield f'<text x="{_LABEL + width + 5:.1f}" y="{y + 12}">{record.milliseconds:.1f}</text>'
