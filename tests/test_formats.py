import json

import pytest

from molspec.formats import FORMATS
from molspec.results import Prediction, Result

ANSWERED = Result("CCO", (Prediction("C=C", -0.125), Prediction("C=O\\", -7.25)))
CUT = Result("CCC", (Prediction("C=C", -0.125, finished=False),))
FAILED = Result("C\tX\n", error="not SMILES: '<U+0009>' at position 2")


def test_jsonl_is_one_object_a_line() -> None:
    form = FORMATS["jsonl"]
    assert form.header == ""
    assert form.render(ANSWERED) == (
        '{"query": "CCO", "predictions": [{"smiles": "C=C", "log_prob": -0.125, "finished": true}, '
        '{"smiles": "C=O\\\\", "log_prob": -7.25, "finished": true}], "error": null}\n'
    )
    line = form.render(FAILED)
    assert line.count("\n") == 1
    assert json.loads(line) == {"query": "C\tX\n", "predictions": [], "error": FAILED.error}


def test_jsonl_keeps_every_digit() -> None:
    result = Result("C", (Prediction("C", -0.1 - 0.2),))
    assert json.loads(FORMATS["jsonl"].render(result))["predictions"][0]["log_prob"] == -0.1 - 0.2


def test_tsv_has_a_row_a_prediction() -> None:
    form = FORMATS["tsv"]
    assert form.header == "query\trank\tsmiles\tlog_prob\tfinished\terror\n"
    assert form.render(ANSWERED) == "CCO\t1\tC=C\t-0.125\ttrue\t\nCCO\t2\tC=O\\\t-7.25\ttrue\t\n"


def test_tsv_rows_stay_whole() -> None:
    assert FORMATS["tsv"].render(FAILED) == f"C X\t\t\t\t\t{FAILED.error}\n"


def test_text_is_for_people() -> None:
    assert FORMATS["text"].render(ANSWERED) == "CCO\n   1.   88.2 %  C=C\n   2.    0.1 %  C=O\\\n"
    assert FORMATS["text"].render(FAILED) == f"C X\n   error: {FAILED.error}\n"


def test_an_answer_that_was_cut_says_so() -> None:
    assert json.loads(FORMATS["jsonl"].render(CUT))["predictions"][0]["finished"] is False
    assert FORMATS["tsv"].render(CUT) == "CCC\t1\tC=C\t-0.125\tfalse\t\n"
    assert FORMATS["text"].render(CUT) == "CCC\n   1.   88.2 %  C=C (unfinished)\n"


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS.keys())
def test_every_form_gives_whole_lines(form: FORMATS) -> None:  # type: ignore[valid-type]
    for result in (ANSWERED, FAILED, Result("\r\n\n", error="empty")):
        assert form.render(result).endswith("\n")
        assert "\r" not in form.render(result)
