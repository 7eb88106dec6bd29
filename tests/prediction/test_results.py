import json
import math
import runpy
import sys
from collections.abc import Callable
from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import create_model

from molspec import evaluation, files
from molspec.decoding import Statistics
from molspec.evaluation import Pair, Record
from molspec.prediction import cache, results
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import Prediction, Result, Results, given

GLOWING = PredictOptions(temperature=0.5, samples=1)


@pytest.fixture
def extended(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`Prediction` with one more field, a list of numbers."""
    glow = given(None, "How it shines.", remark="shines {}", recorded=True, temperature=0.5)
    made = make_dataclass(
        "Prediction", [("glow", tuple[float, ...] | None, glow)], bases=(Prediction,), frozen=True
    )
    for module in (results, cache, evaluation.record):
        monkeypatch.setattr(module, "Prediction", made)
    return made


def test_a_new_field_appears_everywhere(extended: Callable[..., Any]) -> None:
    """In files, the server's contract, caches, records and the page of predictions."""
    from molspec.server import schemas

    glow = (-0.25, 0.5)
    found, other = extended("OC", -0.5, glow=glow), extended("CC", -1.0)
    answer = files.Answer(1, files.Query("CCO"), Result("CCO", (found, other)))
    columns = files.further_columns(GLOWING)
    assert columns == ("glow",)

    def render(form: str) -> str:
        context = files.OutputContext("retro", "retro", further_columns=columns)
        return files.FORMATS[form].head(context) + files.FORMATS[form].render(answer, context)

    first, second = json.loads(render("jsonl"))["predictions"]
    assert (first["glow"], "glow" in second) == ([-0.25, 0.5], False)
    for form, cell in (("csv", '"[-0.25, 0.5]"'), ("tsv", "[-0.25, 0.5]")):
        head, *rows = render(form).splitlines()
        assert (head[-4:], rows[0][-len(cell) :], rows[1][-4:]) == ("glow", cell, "None")
    assert ">  <glow>  (1) \n[-0.25, 0.5]\n" in render("sdf")
    assert "CO  (shines (-0.25, 0.5))" in render("text")

    item = create_model("Item", **schemas._prediction_fields())
    about = item.model_json_schema()["properties"]["glow"]
    assert about["description"] == "How it shines."
    assert about["anyOf"][0] == {"items": {"type": "number"}, "type": "array"}

    record = Record.of(Pair("CCO", "CO"), answer.result, 0.5)
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record
    assert cache._read(cache._written(answer.result)).predictions == answer.result.predictions
    assert Results([answer.result], Statistics()).to_records()[0]["glow"] == glow
    (merged,) = results.merge_duplicates([[found, extended("CO", -1.0)]])
    assert merged.told()["glow"] == glow

    page = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "hooks.py"))["predictions"]()
    row = "| `glow` | `tuple[float, ...] or None` | `temperature=0.5` | How it shines. |"
    assert row in page.splitlines()


def test_a_new_field_is_a_column_of_parquet(extended: Callable[..., Any]) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: nox -s ray has it")
    pytest.importorskip("ray", reason="Ray is not installed: nox -s ray has it")
    from molspec.ray import columns

    given = [[extended("OC", -0.5, glow=(-0.25, 0.5)).to_json(), extended("CC", -1.0).to_json()]]
    (found,) = arrow.array(given, columns()["predictions"]).to_pylist()
    assert [each["glow"] for each in found] == [[-0.25, 0.5], None]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (PredictOptions(), ()),
        (PredictOptions(samples=2), ()),
        (PredictOptions(samples=2, merge_duplicates=True), ("count",)),
        (PredictOptions(verification="relaxed"), ("tolerated",)),
        (PredictOptions(merge_duplicates=True), ()),
    ],
)
def test_options_give_fields(options: PredictOptions, names: tuple[str, ...]) -> None:
    assert files.further_columns(options) == names


def test_fields_name_options_that_there_are() -> None:
    known = {option.name for option in fields(PredictOptions)}
    for each in results.answer_fields():
        assert {*(each.by or {})} <= known


def test_records_have_a_row_for_each_answer_or_error() -> None:
    found = Result("CCO", (Prediction("OC", -0.5), Prediction("C(", -1.0, count=2)))
    rows = Results([found, Result("C", error="bad", note="N")], Statistics()).to_records()
    assert [
        tuple(map(row.get, ("query", "rank", "canonical", "note", "error"))) for row in rows
    ] == [("CCO", 1, "CO", None, None), ("CCO", 2, None, None, None), ("C", None, None, "N", "bad")]
    assert len({tuple(row) for row in rows}) == 1
    assert {each.name for each in results.answer_fields()} < {*rows[0]}
    assert (rows[0]["probability"], rows[1]["count"]) == (math.exp(-0.5), 2)
    assert found.probabilities[0] == found.predictions[0].probability == rows[0]["probability"]
    assert Prediction("C", 1e-9).probability == 1
    assert rows[2]["log_prob"] is rows[2]["probability"] is None


def test_a_result_is_drawn_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Result("CCO", tuple(Prediction("OC" * n, -0.125 * n) for n in range(1, 14)))
    shown = found._repr_html_()
    assert shown.count("<svg") == 11
    assert "88.2 %" in shown
    assert "and 3 more" in shown
    bad = Result("<script>" + 2000 * "C", (Prediction("<b>", -1.0),), error="<i>")._repr_html_()
    assert "<script" not in bad
    assert "<b>" not in bad
    assert "&lt;script&gt;CC" in bad
    assert len(bad) < 2500
    assert "not SMILES: &lt;i&gt;" in Result("C", error="not SMILES: <i>")._repr_html_()
    assert "None" in Result(None)._repr_html_()  # type: ignore[arg-type]
    several = Results([found] * 12, Statistics())._repr_html_()
    assert (several.count("<svg"), "and 2 more results" in several) == (110, True)
    monkeypatch.setitem(sys.modules, "rdkit.Chem.Draw", None)
    assert "<svg" not in found._repr_html_()
