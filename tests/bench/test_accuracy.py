"""The share of targets found and the time per molecule, with a bundled model."""

from __future__ import annotations

from pathlib import Path

import pytest

import accuracy
import molspec
from molspec.evaluation import Pair


def test_the_share_of_found_targets_is_counted() -> None:
    model = molspec.load("product", dtype="int8")
    amide = "CC(=O)Cl.Nc1ccccc1"
    pairs = [Pair(amide, "CC(=O)Nc1ccccc1"), Pair(amide, "c1ccccc1NC(C)=O"), Pair(amide, "CCO")]
    milliseconds, share = accuracy.point(model, pairs, 1, "none")
    assert milliseconds > 0
    assert share == pytest.approx(2 / 3)


def test_accuracy_writes_a_table_and_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "test.tsv"
    table.write_text("reactants\tproduct\nCC(=O)Cl.Nc1ccccc1\tCC(=O)Nc1ccccc1\n")
    picture = tmp_path / "accuracy.svg"
    accuracy.main([f"product={table}", "--rows", "1", "--picture", str(picture)])
    assert "| int8 | 100.0% in " in capsys.readouterr().out
    assert picture.read_text().startswith("<svg")
