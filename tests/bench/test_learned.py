from __future__ import annotations

from importlib import import_module
from pathlib import Path

from molspec import checkpoints
from tests import tiny


def test_every_drafter_and_rule_has_a_row(table: str, tmp_path: Path) -> None:
    checkpoints.write(tiny.with_spec(k=10), tmp_path / "model")
    output = tmp_path / "learned.md"
    arguments = [str(tmp_path / "model"), table, "--timed", "2", "--rounds", "1", "--batches", "1"]
    import_module("learned").main([*arguments, "--limit", "3", "--output", str(output)])
    rows = [line.split("|")[1].strip() for line in output.read_text().splitlines() if "|" in line]
    for name in ("none", "tree 16", "spec 5", "tree+spec 10", "strict", "beta 5, tau 6", "spec"):
        assert name in rows
    assert "spec 15" not in rows  # more than it has learnt
