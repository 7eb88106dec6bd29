"""Every campaign runs with a tiny model and prints its rows; a violation is reported."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import molspec
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


def test_accuracy_counts_the_targets_found_and_draws_them(
    table: str, tiny_model: str, tmp_path: Path, capsys: Captured
) -> None:
    amide = "CC(=O)Cl.Nc1ccccc1"
    pairs = [Pair(amide, "CC(=O)Nc1ccccc1"), Pair(amide, "c1ccccc1NC(C)=O"), Pair(amide, "CCO")]
    product = molspec.load("product", dtype="int8")
    _, share = import_module("accuracy").point(product, pairs, 1, "none")
    assert share == pytest.approx(2 / 3)
    picture = tmp_path / "accuracy.svg"
    run("accuracy", f"product={table}", "--rows", "1", "--picture", str(picture))
    assert "| int8 | " in capsys.readouterr().out
    assert picture.read_text().startswith("<svg")


def test_drafters_are_compared(tiny_model: str, table: str, capsys: Captured) -> None:
    run("drafters", f"{tiny_model}={table}", "--timed", "2", "--rounds", "1")
    text = capsys.readouterr().out
    assert "## tiny\n\n6 queries" in text
    assert named(text).count("none") == 1
    (none,) = (line for line in text.splitlines() if line.startswith("| none"))
    assert none.split("|")[3:6] == [" 1.0 ", " 0.0% ", " 0.0% "]


def test_tables_are_printed_and_a_later_run_resumes(
    tiny_model: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    tables = import_module("tables")
    monkeypatch.setattr(tables, "TURN", 2)
    arguments = ["--product-table", table, "--retro-table", table, "--n", "5"]
    arguments += ["--product-model", tiny_model, "--retro-model", tiny_model]
    arguments += ["--folder", str(tmp_path / "runs"), "--limit"]
    printed = []
    for limit in ("1", "3", "3"):
        run("tables", *arguments, limit)
        printed.append(capsys.readouterr().out)
    assert printed[2] == printed[1]
    files = sorted((tmp_path / "runs").iterdir())
    assert len(files) == len(tables.PRODUCT_GREEDY) + len(tables.PRODUCT_BEAM) + 4
    assert {len(file.read_text().splitlines()) for file in files} == {4}
    assert all(f"## {number}. " in printed[1] for number in range(1, 5))


def test_beams_cover_all_searches_without_violations(
    tiny_model: str, table: str, tmp_path: Path, capsys: Captured
) -> None:
    flags = "--max-length 12 --node-budget 7 --max-depth 3 --min-probability 0.125 --n 2 3"
    report = str(tmp_path / "report.json")
    assert run("beams", table, "--model", tiny_model, *flags.split(), "--json", report) == 0
    text = capsys.readouterr().out
    assert "lookahead 3, 7 nodes, p >= 0.125" in text
    rows = [line.split(" | ")[1] for line in text.splitlines() if line.startswith("| ")][1:]
    assert rows == ["standard", "exact", "SBS", "SBS, D = 0"] * 2
    searches = json.loads(Path(report).read_text())["searches"]
    assert [len(search["seconds"]) for search in searches] == [6] * 8
    assert all(query["decoder_calls"] > 0 for each in searches for query in each["statistics"])


def test_another_list_of_a_beam_is_a_violation(
    tiny_model: str, table: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another ranking, the lists of exact differ from those of standard search."""
    beams: Any = import_module("beams")
    searches = beams.searches

    def searches_with_another_ranking(n: int, flags: Any) -> Any:
        standard, exact = searches(n, flags)
        return [standard, replace(exact, options=replace(exact.options, length_penalty=9.0))]

    monkeypatch.setattr(beams, "searches", searches_with_another_ranking)
    flags = ("--model", tiny_model, "--max-length", "12", "--n", "3", "--searches", "exact")
    assert run("beams", table, *flags) == 1
    assert "VIOLATED: n = 3, exact: " in capsys.readouterr().out


def test_a_list_that_depends_on_its_batch_is_a_violation() -> None:
    beams: Any = import_module("beams")
    options = PredictOptions(n_best=2, batch_size=1, max_length=12, drafter=LookAhead(10))
    model = tiny.model()
    (found,) = beams.in_turns(model, [beams.Search("standard", options, True)], ["CCO", "CCN", "C"])
    assert list(beams.violations(model, [found], 2)) == []
    first = found.results[0].predictions[0]
    changed = replace(first, log_prob=first.log_prob * (1 + 2**-50))
    found.results[0] = replace(found.results[0], predictions=(changed,))
    expected = ["n = 2, standard: 1 lists change at batch 2"]
    assert list(beams.violations(model, [found], 2)) == expected
