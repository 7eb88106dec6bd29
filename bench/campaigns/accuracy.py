"""The share of targets found against the time a molecule, one query at a time on one thread.

    python bench/campaigns/accuracy.py retro=uspto50k/test.tsv.xz product=uspto_mit/test.tsv.xz \
        --picture docs/benchmarks/accuracy.svg

Prints Markdown. Lists have 1 to 25 answers; a target is found if one of them is the same molecule.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import charts
import machine
import molspec
from molspec import PredictOptions
from rows import Row, markdown, measured, pairs_of

LENGTHS = (1, 3, 5, 10, 25)
#: The curves: dtype of the engine, and drafter.
KINDS = {
    "int8": ("int8", None),
    "float32": ("float32", None),
    "float32, without drafts": ("float32", "none"),
}
_MARKS: dict[float, str] = {ms: f"{ms} ms" for ms in (2, 5, 10, 20, 50, 100, 200)}


def curves(name: str, file: Path, limit: int) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds a query and the share of targets found, by length of the list."""
    models = {dtype: molspec.load(name, dtype=dtype) for dtype, _ in KINDS.values()}
    pairs = pairs_of(file, models["int8"].task, limit)
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for length in LENGTHS:
        rows = [
            Row(kind, models[dtype], PredictOptions(length, batch_size=1, drafter=drafter))
            for kind, (dtype, drafter) in KINDS.items()
        ]
        for one in measured(rows, pairs):
            share = one.summary.accuracy(length) or 0.0
            found[one.row.name].append((one.milliseconds, share))
    return found


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
        found = curves(name, Path(file), flags.rows)
        cells = (
            [kind, *(f"{share:.1%} in {milliseconds:.1f} ms" for milliseconds, share in points)]
            for kind, points in found.items()
        )
        print("", *markdown([name, *(f"n = {n}" for n in LENGTHS)], cells), sep="\n", flush=True)
        pictures.append(
            charts.Chart(
                f"{name}: targets found among 1, 3, 5, 10 and 25 answers, by time a molecule",
                charts.Axis(2, 200, _MARKS, logarithmic=True),
                charts.Axis(0.5, 1, {p / 100: f"{p} %" for p in range(50, 101, 10)}),
                found,
            )
        )
    if flags.picture:
        flags.picture.write_text(charts.picture(pictures, list(KINDS), machine.described()))


if __name__ == "__main__":
    main()
