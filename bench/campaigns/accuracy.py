"""The share of targets found against the time a molecule, one query at a time on one thread.

    python bench/campaigns/accuracy.py retro=uspto50k/test.tsv.xz product=uspto_mit/test.tsv.xz \
        --picture docs/benchmarks/accuracy.svg

Prints Markdown. Lists have 1 to 25 answers; a target is found if one of them is the same molecule.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import charts
import machine
import molspec
from molspec.evaluation import Pair, PairTable
from molspec.evaluation.record import Record
from molspec.text import smiles

LENGTHS = (1, 3, 5, 10, 25)
#: The curves: dtype of the engine, and drafter.
KINDS = {
    "int8": ("int8", "auto"),
    "float32": ("float32", "auto"),
    "float32, without drafts": ("float32", "none"),
}
#: Queries that warm up before the measurement.
_WARM = 5
_MARKS: dict[float, str] = {ms: f"{ms} ms" for ms in (2, 5, 10, 20, 50, 100, 200)}


def point(
    model: molspec.Model, pairs: Sequence[Pair], n_best: int, drafter: str
) -> tuple[float, float]:
    """Milliseconds a query, and the share of targets found."""
    options: dict[str, Any] = {"n_best": n_best, "batch_size": 1}
    if drafter != "auto":
        options["drafter"] = drafter
    queries = [pair.query for pair in pairs]
    model.predict(queries[:_WARM], **options)
    smiles._written.cache_clear()  # queries are new to a user's program
    began = time.perf_counter()
    results = model.predict(queries, **options)
    milliseconds = 1000 * (time.perf_counter() - began) / len(pairs)
    found = [
        Record.of(pair, result, 0.0).found_at is not None
        for pair, result in zip(pairs, results, strict=True)
    ]
    return milliseconds, sum(found) / len(found)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("sets", metavar="MODEL=FILE", nargs="+")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--picture", type=Path, help="an SVG to write")
    flags = parser.parse_args(arguments)
    molspec.set_num_threads(1)
    print(machine.described(rows=str(flags.rows)))
    pictures = []
    for text in flags.sets:
        name, file = text.split("=")
        pairs = list(islice(PairTable(Path(file), task=name), flags.rows))
        curves: dict[str, list[tuple[float, float]]] = {}
        for kind, (dtype, drafter) in KINDS.items():
            model = molspec.load(name, dtype=dtype)
            curves[kind] = [point(model, pairs, n_best, drafter) for n_best in LENGTHS]
        print(f"\n## {name}\n\n| | {' | '.join(f'n = {n}' for n in LENGTHS)} |")
        print("|---|" + "---:|" * len(LENGTHS))
        for kind, points in curves.items():
            print(f"| {kind} | " + " | ".join(f"{y:.1%} in {x:.1f} ms" for x, y in points) + " |")
        pictures.append(
            charts.Chart(
                f"{name}: targets found among 1, 3, 5, 10 and 25 answers, by time a molecule",
                charts.Axis(2, 200, _MARKS, logarithmic=True),
                charts.Axis(0.5, 1, {p / 100: f"{p} %" for p in range(50, 101, 10)}),
                curves,
            )
        )
    if flags.picture:
        flags.picture.write_text(charts.picture(pictures, list(KINDS), machine.described()))


if __name__ == "__main__":
    main()
