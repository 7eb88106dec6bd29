import csv
import json
import unicodedata
from dataclasses import replace
from io import StringIO

import pytest

from molspec.files import FORMATS, Answer, OutputContext, Query
from molspec.prediction.results import Prediction, Result

CONTEXT = OutputContext("retro", "retro")
ANSWERED = Answer(
    3, Query("CCO", "m 1"), Result("CCO", (Prediction("OC", -0.125), Prediction("C=O(", -7.25)))
)
UNFINISHED = Answer(4, Query("CCC"), Result("CCC", (Prediction("C=C", -0.125, finished=False),)))
FAILED = Answer(
    5, Query("C\tX\n", "m\t2"), Result("C\tX\n", error="not SMILES: '<U+0009>' at position 2")
)


def render(form: str, answer: Answer, context: OutputContext = CONTEXT) -> str:
    return FORMATS[form].render(answer, context)


def test_samples_are_written_with_their_count() -> None:
    samples = (Prediction("OC", -0.125, count=3), Prediction("C", -2.0))
    sampled = replace(ANSWERED, result=Result("CCO", samples))
    context = replace(CONTEXT, further_columns=("count",))
    for form, delimiter in (("csv", ","), ("tsv", "\t")):
        text = (
            FORMATS[form].head(context)
            + render(form, sampled, context)
            + render(form, FAILED, context)
        )
        rows = list(csv.DictReader(StringIO(text), delimiter=delimiter))
        assert [row["count"] for row in rows] == ["3", "1", ""]
    first, second = json.loads(render("jsonl", sampled))["predictions"]
    assert (first["count"], second.get("count")) == (3, None)


def test_jsonl_has_one_object_per_line_and_every_digit() -> None:
    answer = replace(ANSWERED, result=Result("C", (Prediction("C", -0.1 - 0.2),)))
    assert json.loads(render("jsonl", answer))["predictions"][0]["log_prob"] == -0.1 - 0.2
    assert render("jsonl", ANSWERED) == (
        '{"id": "m 1", "query": "CCO", "predictions": ['
        '{"smiles": "OC", "canonical": "CO", "log_prob": -0.125, "finished": true}, '
        '{"smiles": "C=O(", "canonical": null, "log_prob": -7.25, "finished": true}], '
        '"note": null, "error": null}\n'
    )
    line = render("jsonl", FAILED)
    assert line.count("\n") == 1
    assert json.loads(line)["query"] == "C\tX\n"
    assert json.loads(line)["error"] == FAILED.result.error


def test_tables_have_one_row_per_prediction() -> None:
    for form, delimiter in (("csv", ","), ("tsv", "\t")):
        text = FORMATS[form].head(CONTEXT) + render(form, ANSWERED) + render(form, UNFINISHED)
        header, *rows = csv.reader(StringIO(text), delimiter=delimiter)
        assert [dict(zip(header, row, strict=True)) for row in rows] == [
            {
                "id": number,
                "query": query,
                "rank": rank,
                "canonical": canonical,
                "probability": probability,
                "log_prob": log_prob,
                "finished": finished,
                "smiles": smiles,
                "note": "",
                "error": "",
            }
            for number, query, rank, canonical, probability, log_prob, finished, smiles in (
                ("m 1", "CCO", "1", "CO", "0.882497", "-0.125", "true", "OC"),
                ("m 1", "CCO", "2", "", "0.000710174", "-7.25", "true", "C=O("),
                ("4", "CCC", "1", "", "0.882497", "-0.125", "false", "C=C"),
            )
        ]


def test_control_characters_do_not_break_rows() -> None:
    error = FAILED.result.error
    assert render("tsv", FAILED) == f"m 2\tC X\t\t\t\t\t\t\t\t{error}\n"
    assert render("csv", FAILED) == f"m 2,C X,,,,,,,,{error}\n"
    assert render("smi", FAILED) == f"\tm 2\t\terror: {error}\n"


def test_text_shows_canonical_smiles_and_percentages() -> None:
    assert render("text", ANSWERED) == (
        "CCO  m 1\n   1.   88.2 %  CO\n   2.    0.1 %  C=O( (not a molecule to RDKit)\n"
    )
    assert render("text", FAILED) == f"C X  m 2\n   error: {FAILED.result.error}\n"
    assert render("text", UNFINISHED) == "CCC\n   1.   88.2 %  C=C (unfinished)\n"
    noted = replace(UNFINISHED, query=Query("CCC", note="decoded without [Na+], as CCC"))
    assert render("text", noted).splitlines()[1] == "   note: decoded without [Na+], as CCC"
    written = replace(CONTEXT, as_written=True)
    assert "  OC\n" in render("text", ANSWERED, written)
    assert render("smi", ANSWERED, written).startswith("OC\tm 1\t1\t")


def test_smiles_and_reactions_carry_identifiers() -> None:
    assert render("smi", ANSWERED) == (
        "CO\tm 1\t1\t0.882497\n\tm 1\t2\terror: not a molecule to RDKit\n"
    )
    assert render("smi", UNFINISHED) == "\t4\t1\terror: unfinished\n"
    assert render("rsmi", ANSWERED).startswith("CO>>CCO\tm 1\t1\t")
    assert render("rsmi", ANSWERED, OutputContext("product", "product")).startswith("CCO>>CO\t")
    reagents = replace(ANSWERED, query=Query("CCO>N"))
    assert render("rsmi", reagents, OutputContext("product", "product")).startswith("CCO>N>CO\t")


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_writes_complete_lines(form: str) -> None:
    for answer in (
        ANSWERED,
        UNFINISHED,
        FAILED,
        Answer(1, Query("\r\n\n"), Result("\r\n", error="empty")),
    ):
        text = FORMATS[form].head(CONTEXT) + render(form, answer) + FORMATS[form].foot(CONTEXT)
        assert text.endswith("\n")
        assert "\r" not in text.replace("\\r", "")


@pytest.mark.parametrize("form", ["csv", "tsv"])
@pytest.mark.parametrize("text", ["=1+1", "+1", "-N", "@a", '"a', '"=1"', "a,b", "'a"])
def test_cells_of_a_table_are_written_as_they_are(form: str, text: str) -> None:
    """A reader of CSV takes quotes for quotes; one of tabs takes them for text."""
    answer = Answer(1, Query(text, text, columns=(text,)), Result(text, error=text))
    context = replace(CONTEXT, copied_columns=(text,))
    written = FORMATS[form].head(context) + render(form, answer, context)
    quoting = csv.QUOTE_MINIMAL if form == "csv" else csv.QUOTE_NONE
    separator = "," if form == "csv" else "\t"
    head, row = csv.reader(StringIO(written), delimiter=separator, quoting=quoting)
    assert (head[-1], row[0], row[1], row[-2], row[-1]) == (text,) * 5


@pytest.mark.parametrize("form", ["text", "csv", "tsv", "smi"])
def test_no_name_steers_a_terminal(form: str) -> None:
    query = Query("CO", "a\x1b]0;title\x07\x00\x9bb")
    text = render(form, replace(ANSWERED, query=query), CONTEXT)
    assert "a\ufffd]0;title\ufffd\ufffd\ufffdb" in text
    assert not any(unicodedata.category(each) == "Cc" for each in text if each not in "\t\n")


def test_copied_columns_are_written() -> None:
    context = replace(CONTEXT, copied_columns=("price, EUR", "cost"))
    answer = replace(ANSWERED, query=Query("CCO", "m 1", columns=("1,5", "2")))
    for form, delimiter in (("csv", ","), ("tsv", "\t")):
        text = FORMATS[form].head(context) + render(form, answer, context)
        rows = list(csv.DictReader(StringIO(text), delimiter=delimiter))
        assert [(row["price, EUR"], row["cost"]) for row in rows] == [("1,5", "2")] * 2
    (line,) = render("jsonl", answer, context).splitlines()
    assert json.loads(line)["columns"] == {"price, EUR": "1,5", "cost": "2"}
    assert "<price, EUR>" in render("sdf", answer, context)
