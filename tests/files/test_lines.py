import csv
import unicodedata
from dataclasses import replace
from io import StringIO

import pytest

from molspec.files import FORMATS, Answer, OutputContext, Query
from molspec.prediction.results import Prediction, Result

CONTEXT = OutputContext(
    "retro", "retro", further_columns=("count",), copied_columns=("price, EUR",)
)
#: Two predictions with a count; an unfinished one of part of the query; a name with tabs and
#: characters that steer a terminal.
ANSWERED, UNFINISHED, FAILED = ANSWERS = (
    Answer(
        3,
        Query("CCO", "m 1", columns=("1,5",)),
        Result("CCO", (Prediction("OC", -0.1 - 0.2, count=3), Prediction("C=O(", -7.25))),
    ),
    Answer(
        4,
        Query("CCC", note="without [Na+]", columns=("2",)),
        Result("CCC", (Prediction("C=C", -0.125, finished=False),)),
    ),
    Answer(
        5,
        Query("C\tX\n", "m\t2\x1b\x9b", columns=("",)),
        Result("C\tX\n", error="not SMILES: '<U+0009>' at position 2"),
    ),
)
#: What files of these answers have, by format.
WRITTEN = {
    "text": """\
CCO  m 1
   1.   74.1 %  CO
   2.    0.1 %  C=O( (not a molecule to RDKit)
CCC
   note: without [Na+]
   1.   88.2 %  C=C (unfinished)
C X  m 2\ufffd\ufffd
   error: not SMILES: '<U+0009>' at position 2
""",
    "jsonl": """\
{"id": "m 1", "query": "CCO", "predictions": [{"smiles": "OC", "canonical": "CO", \
"log_prob": -0.30000000000000004, "finished": true, "count": 3, "note": null}, {"smiles": "C=O(", \
"canonical": null, "log_prob": -7.25, "finished": true, "note": null}], "note": null, \
"error": null, \
"columns": {"price, EUR": "1,5"}}
{"id": "4", "query": "CCC", "predictions": [{"smiles": "C=C", "canonical": null, \
"log_prob": -0.125, "finished": false, "note": null}], "note": "without [Na+]", \
"error": null, \
"columns": {"price, EUR": "2"}}
{"id": "m\\t2\\u001b\\u009b", "query": "C\\tX\\n", "predictions": [], "note": null, \
"error": "not SMILES: '<U+0009>' at position 2", "columns": {"price, EUR": ""}}
""",
    "csv": """\
id,query,rank,canonical,probability,log_prob,finished,smiles,note,error,count,"price, EUR"
m 1,CCO,1,CO,0.740818,-0.30000000000000004,true,OC,,,3,"1,5"
m 1,CCO,2,,0.000710174,-7.25,true,C=O(,,,1,"1,5"
4,CCC,1,,0.882497,-0.125,false,C=C,without [Na+],,1,2
m 2\ufffd\ufffd,C X,,,,,,,,not SMILES: '<U+0009>' at position 2,,
""",
    "smi": """\
CO\tm 1\t1\t0.740818
\tm 1\t2\terror: not a molecule to RDKit
\t4\t1\terror: unfinished
\tm 2\ufffd\ufffd\t\terror: not SMILES: '<U+0009>' at position 2
""",
}
WRITTEN["rsmi"] = WRITTEN["smi"].replace("CO\t", "CO>>CCO\t", 1)
WRITTEN["tsv"] = "".join("\t".join(row) + "\n" for row in csv.reader(StringIO(WRITTEN["csv"])))


def written(form: str, *answers: Answer, context: OutputContext = CONTEXT) -> str:
    made = FORMATS[form]
    parts = (made.render(answer, context) for answer in answers)
    return made.head(context) + "".join(parts) + made.foot(context)


@pytest.mark.parametrize("form", WRITTEN)
def test_a_file_has_the_answers_and_every_digit(form: str) -> None:
    assert written(form, *ANSWERS) == WRITTEN[form]


@pytest.mark.parametrize("form", FORMATS)
def test_no_text_breaks_a_line_or_steers_a_terminal(form: str) -> None:
    for answer in (*ANSWERS, Answer(1, Query("\r\n\n"), Result("\r\n", error="empty"))):
        text = written(form, replace(answer, query=replace(answer.query, columns=("",))))
        assert text.endswith("\n")
        assert "\r" not in text
        if form != "sdf":  # RDKit writes it
            assert not any(
                unicodedata.category(each) == "Cc" for each in text.translate({9: "", 10: ""})
            )


def test_the_options_and_the_task_decide_the_spelling() -> None:
    as_written = replace(CONTEXT, as_written=True)
    assert "  OC\n" in written("text", ANSWERED, context=as_written)
    assert written("smi", ANSWERED, context=as_written).startswith("OC\tm 1\t1\t")
    forward = OutputContext("product", "product")
    for query, reaction in (("CCO", "CCO>>CO"), ("CCO>N", "CCO>N>CO")):
        answer = replace(ANSWERED, query=Query(query))
        assert written("rsmi", answer, context=forward).startswith(f"{reaction}\t")


@pytest.mark.parametrize("form", ["csv", "tsv"])
@pytest.mark.parametrize("text", ["=1+1", "+1", "-N", "@a", '"a', '"=1"', "a,b", "'a"])
def test_cells_of_a_table_are_written_as_they_are(form: str, text: str) -> None:
    """A reader of CSV takes quotes for quotes; one of tabs takes them for text."""
    answer = Answer(1, Query(text, text, columns=(text,)), Result(text, error=text))
    table = written(form, answer, context=replace(CONTEXT, copied_columns=(text,)))
    quoting = csv.QUOTE_MINIMAL if form == "csv" else csv.QUOTE_NONE
    separator = "," if form == "csv" else "\t"
    head, row = csv.reader(StringIO(table), delimiter=separator, quoting=quoting)
    assert (head[-1], row[0], row[1], row[-3], row[-1]) == (text,) * 5
