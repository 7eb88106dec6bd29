"""Targets found by time a molecule: the counts, on the tests' model."""

from __future__ import annotations

from pathlib import Path

import pytest

import accuracy
from molspec.evaluation import Pair
from molspec.text.smiles import canonicalise
from tests import tiny


def test_what_is_found_is_counted() -> None:
    model = tiny.model()
    queries = tiny.QUERIES[:3]
    answers = [result.predictions[0].smiles for result in model.predict(queries, n_best=3)]
    pairs = [Pair(query, answer) for query, answer in zip(queries, answers, strict=True)]
    valid = sum(pair.target != "" and canonicalise(pair.target) is not None for pair in pairs)
    milliseconds, share = accuracy.point(model, pairs, 3, "none")
    assert milliseconds > 0
    assert share == pytest.approx(valid / 3)


def test_a_table_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "test.tsv"
    table.write_text("reactants\tproduct\nCC(=O)Cl.Nc1ccccc1\tCC(=O)Nc1ccccc1\n")
    picture = tmp_path / "accuracy.svg"
    accuracy.main([f"product={table}", "--rows", "1", "--picture", str(picture)])
    assert "| int8 | 100.0% in " in capsys.readouterr().out
    assert picture.read_text().startswith("<svg")
