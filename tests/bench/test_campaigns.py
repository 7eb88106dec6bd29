"""Every campaign runs with a tiny model and prints its rows; a violation is reported."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import molspec
import rows
from molspec import PredictOptions
from molspec.drafting import LookAhead
from molspec.evaluation import Pair
from tests import tiny

Captured = pytest.CaptureFixture[str]


def run(name: str, *arguments: object) -> Any:
    """Runs a campaign; its status, if it has one."""
    return import_module(name).main([str(each) for each in arguments])


def named(text: str) -> list[str]:
    """The first cells of the rows of all tables."""
    return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]


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


def test_drafters_are_compared(tiny_model: str, table: str, capsys: Captured) -> None:
    run("drafters", f"{tiny_model}={table}", "--timed", "2", "--rounds", "1")
    text = capsys.readouterr().out
    assert "## tiny, bfloat16\n\n6 queries" in text
    assert named(text).count("none") == 2
    none, _ = (line for line in text.splitlines() if line.startswith("| none"))
    assert none.split("|")[3:6] == [" 1.0 ", " 0.0% ", " 0.0% "]


def test_tables_show_their_figures_beside_ours(
    tiny_model: str, table: str, capsys: Captured
) -> None:
    arguments = ["--product-table", table, "--retro-table", table, "--n", "5", "--limit", "2"]
    run("tables", *arguments, "--product-model", tiny_model, "--retro-model", tiny_model)
    text = capsys.readouterr().out
    assert all(f"## {number}. " in text for number in range(1, 5))
    (sbs,) = (line.split("|") for line in text.splitlines() if line.startswith("| SBS, D = 10"))
    assert sbs[2:4] == [" 118.6 ", " 3.71 "]


def test_beams_cover_all_searches_without_violations(
    tiny_model: str, table: str, capsys: Captured
) -> None:
    assert run("beams", table, "--model", tiny_model, "--max-length", 12, "--n", 2, 3) == 0
    text = capsys.readouterr().out
    assert named(text) == ["search", "standard", "exact", "SBS", "SBS, D = 0"] * 2
    assert "No list depends on its batch, 1 or 8." in text


def test_another_list_of_a_beam_is_a_violation(
    tiny_model: str, table: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another ranking, the lists of exact differ from those of standard search."""
    beams: Any = import_module("beams")
    searches = beams.searches

    def with_another_ranking(*arguments: Any) -> Any:
        standard, exact, *_ = searches(*arguments)
        return [standard, replace(exact, options=replace(exact.options, length_penalty=9.0))]

    monkeypatch.setattr(beams, "searches", with_another_ranking)
    assert run("beams", table, "--model", tiny_model, "--max-length", 12, "--n", 3) == 1
    assert "VIOLATED: n = 3, exact: " in capsys.readouterr().out


def test_a_list_that_depends_on_its_batch_is_a_violation() -> None:
    beams: Any = import_module("beams")
    options = PredictOptions(n_best=2, batch_size=1, max_length=12, drafter=LookAhead(10))
    row = rows.Row("standard", tiny.model(), options)
    (found,) = rows.measured([row], [Pair(each, each) for each in ("CCO", "CCN", "C")])
    assert list(beams.violations([found], 2)) == []
    record = found.records[0]
    first = record.predictions[0]
    changed = replace(first, log_prob=first.log_prob * (1 + 2**-50))
    records = [replace(record, predictions=(changed,)), *found.records[1:]]
    expected = ["n = 2, standard: 1 lists change at batch 2"]
    assert list(beams.violations([replace(found, records=records)], 2)) == expected
