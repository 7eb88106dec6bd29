"""Every campaign runs with a tiny model and prints its rows; a violation is reported."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import molspec
import rows
from molspec import PredictOptions, checkpoints
from molspec.evaluation import Pair
from tests import tiny

Captured = pytest.CaptureFixture[str]


def run(name: str, *arguments: object) -> Any:
    """Runs a campaign; its status, if it has one."""
    return import_module(name).main([str(each) for each in arguments])


def test_rows_count_the_targets_found_and_draw_them(
    table: str, tiny_model: str, tmp_path: Path, capsys: Captured
) -> None:
    amide = "CC(=O)Cl.Nc1ccccc1"
    pairs = [Pair(amide, "CC(=O)Nc1ccccc1"), Pair(amide, "c1ccccc1NC(C)=O"), Pair(amide, "CCO")]
    row = rows.Row("product", molspec.load("product", dtype="int8"), PredictOptions())
    (found,) = rows.measured([row], pairs)
    assert found.summary.accuracy(1) == pytest.approx(2 / 3)
    picture = tmp_path / "accuracy.svg"
    run("accuracy", f"product={table}", "--rows", "1", "--picture", str(picture))
    assert "| int8 | " in capsys.readouterr().out
    assert picture.read_text().startswith("<svg")


def test_the_row_that_begins_changes_and_the_median_round_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[str] = []

    def stream(name: str) -> Iterator[str]:
        for _ in range(3):
            taken.append(name)
            yield name

    found = rows.in_turns([stream("a"), stream("b")])
    assert "".join(taken) == "abbaab"
    assert [[name for name, _ in each] for each in found] == [["a"] * 3, ["b"] * 3]
    # Before and after each query, and before the end: two queries, two more rounds of the first.
    readings = iter([0, 3, 0, 5, 0, 0, 9, 0, 0, 1, 0])
    monkeypatch.setattr(rows, "perf_counter", lambda: float(next(readings)))
    row = rows.Row("none", tiny.model(), PredictOptions(max_length=9, batch_size=1))
    (one,) = rows.measured([row], [Pair(each, each) for each in ("CCO", "CCN")], 3, timed=1)
    assert [record.seconds for record in one.records] == [3.0, 5.0]
    assert one.milliseconds == 3000.0


@pytest.mark.parametrize(
    ("searches", "rows", "cells"),
    [
        ("drafters", ["none", "windows 10x10"], {"none": ["1.0", "0.0%", "0.0%"]}),
        ("beams", ["standard, n = 5", "exact", "SBS"], {"exact": ["100.0%", "100.0%"]}),
        ("papers", ["greedy", "windows, D = 4, N = 23"], {"greedy": ["92.7", "1.00"]}),
    ],
)
def test_searches_are_compared(
    searches: str,
    rows: list[str],
    cells: dict[str, list[str]],
    table: str,
    tmp_path: Path,
    capsys: Captured,
) -> None:
    checkpoints.write(replace(tiny.checkpoint(), task="product"), tmp_path / "own")
    limits = ("--limit", 2, "--timed", 1, "--max-length", 12)
    run("searches", searches, f"{tmp_path / 'own'}={table}", *limits)
    lines = [
        [cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.splitlines()
    ]
    found = {line[1]: line[2:] for line in lines if len(line) > 3}
    assert list(found)[:1] == ["search"]
    assert [name for name in found if name in rows] == rows
    for name, expected in cells.items():
        assert all(each in found[name] for each in expected)
