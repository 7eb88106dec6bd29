from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest


def test_all_tables_are_printed_and_a_later_run_resumes(
    tiny_model: str,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tables = import_module("tables")
    monkeypatch.setattr(tables, "TURN", 2)
    arguments = ["--product-table", table, "--retro-table", table, "--n", "5"]
    arguments += ["--product-model", tiny_model, "--retro-model", tiny_model]
    arguments += ["--folder", str(tmp_path / "runs")]
    tables.main([*arguments, "--limit", "1"])
    capsys.readouterr()
    tables.main([*arguments, "--limit", "3"])
    first = capsys.readouterr().out
    files = sorted((tmp_path / "runs").iterdir())
    assert len(files) == len(tables.PRODUCT_GREEDY) + len(tables.PRODUCT_BEAM) + 4
    assert {len(file.read_text().splitlines()) for file in files} == {4}
    tables.main([*arguments, "--limit", "3"])
    assert capsys.readouterr().out == first
    for number in range(1, 5):
        assert f"## {number}. " in first
    assert "| greedy | 92.7 | 1.00x |" in first
    assert "| theirs | 52.07% | 75.16% | 82.07% |" in first
