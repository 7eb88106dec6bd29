"""The sampling benchmark prints its tables for a tiny model."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

import sampling
from molspec import checkpoints
from tests import tiny


def test_every_search_and_drafter_has_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in (("model", 1), ("small", 2)):
        checkpoints.write(tiny.checkpoint(seed), tmp_path / name)
    small = str(tmp_path / "small")
    with lzma.open(tmp_path / "test.tsv.xz", "wt") as file:
        file.write("src\ttgt\n" + "".join(f"{query}\tC\n" for query in tiny.QUERIES[:2]))
    arguments = ["--model", str(tmp_path / "model"), "--small", small, "--smallest", small]
    searches = ["greedy", "10 samples by rejection", "published beam of 3"]
    flags = ["--rounds", "1", "--answers", "3", "--searches", *searches]
    sampling.main([str(tmp_path / "test.tsv.xz"), *arguments, *flags])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len([row for row in rows if row.startswith("| greedy |")]) == 8
    assert len([row for row in rows if row.startswith("| published beam of 3 |")]) == 7
    assert len([row for row in rows if row.startswith("| 3 |")]) == 4
