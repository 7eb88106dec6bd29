from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from molspec.drafting import LookAhead

Captured = pytest.CaptureFixture[str]


def compare(*arguments: str) -> int:
    status: int = import_module("beams").main([*arguments, "--max-length", "12"])
    return status


def test_the_report_covers_all_searches_without_violations(
    tiny_model: str, table: str, tmp_path: Path, capsys: Captured
) -> None:
    report = tmp_path / "report.json"
    assert compare(table, "--model", tiny_model, "--n", "2", "3", "--json", str(report)) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[:2] for row in rows] == [
        [f"| {n}", name] for n in (2, 3) for name in ("standard", "exact", "SBS", "SBS, D = 0")
    ]
    searches = json.loads(report.read_text())["searches"]
    assert [len(search["seconds"]) for search in searches] == [6] * 8
    for search in searches:
        assert all(query["decoder_calls"] > 0 for query in search["statistics"])


def test_flags_set_the_lookahead(tiny_model: str, table: str, capsys: Captured) -> None:
    flags = "--node-budget 7 --max-depth 3 --min-probability 0.125 --n 2 --limit 2"
    assert compare(table, "--model", tiny_model, *flags.split(), "--searches", "exact") == 0
    assert "lookahead 3, 7 nodes, p >= 0.125" in capsys.readouterr().out


def test_another_list_is_reported_as_a_violation(
    tiny_model: str, table: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another ranking, the lists of exact differ from those of standard search."""
    beams: Any = import_module("beams")
    searches = beams.searches

    def searches_with_another_ranking(n: int, flags: Any) -> Any:
        standard, exact = searches(n, flags)
        return [standard, replace(exact, options=replace(exact.options, length_penalty=9.0))]

    monkeypatch.setattr(beams, "searches", searches_with_another_ranking)
    assert compare(table, "--model", tiny_model, "--n", "3", "--searches", "exact") == 1
    assert "VIOLATED: n = 3, exact: " in capsys.readouterr().out


def test_a_list_that_depends_on_its_batch_is_a_violation(tiny_model: str, table: str) -> None:
    from molspec import load
    from molspec.prediction.options import PredictOptions

    beams: Any = import_module("beams")
    options = PredictOptions(n_best=2, batch_size=1, max_length=12, drafter=LookAhead(10))
    search = beams.Search("standard", options, True)
    queries = ["CCO", "CCN", "C"]
    (measured,) = beams.in_turns(load(tiny_model), [search], queries)
    assert list(beams.violations(load(tiny_model), [measured], 2)) == []
    first = measured.results[0].predictions[0]
    changed = replace(first, log_prob=first.log_prob * (1 + 2**-50))
    measured.results[0] = replace(measured.results[0], predictions=(changed,))
    assert list(beams.violations(load(tiny_model), [measured], 2)) == [
        "n = 2, standard: 1 lists change at batch 2"
    ]
