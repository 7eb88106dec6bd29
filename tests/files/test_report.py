import sys
from xml.etree import ElementTree

import pytest

from molspec.files import FORMATS, Answer, OutputContext, Query
from molspec.files.report import drawn
from molspec.prediction.results import Prediction, Result
from tests.files.pages import Tags
from tests.refusals import refused

CONTEXT = OutputContext("a <model>", "retro", about="Answered & drawn.")
PAGE = FORMATS["html"]


def page(*answers: Answer) -> str:
    body = "".join(PAGE.render(answer, CONTEXT) for answer in answers)
    return PAGE.head(CONTEXT) + body + PAGE.foot(CONTEXT)


def test_complexes_and_reactants_with_reagents_are_drawn() -> None:
    for smiles in ("C[NH2]->[Cu]", "CO>[Na+].[Cl-]"):
        assert next(drawn(smiles)).startswith("<svg")


def test_page_shows_drawings_notes_and_errors() -> None:
    predictions = (Prediction("CC(=O)Cl.Nc1ccccc1", -0.125), Prediction("C(", -3.0))
    answers = (
        Answer(1, Query("CC(=O)Nc1ccccc1", "<b>m & 1</b>"), Result("CC(=O)Nc1ccccc1", predictions)),
        Answer(2, Query("<script>"), Result("<script>", error="not SMILES: '<'")),
        Answer(
            3, Query("CO.[Na+]", note="decoded without [Na+]"), Result("CO.[Na+]", predictions[:1])
        ),
    )
    text = page(*answers)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert text.count("<svg") == 4
    assert "<script" not in text
    for shown in ("<b>m & 1</b>", "88.2 %", "not a molecule to RDKit", "not SMILES: '<'"):
        assert shown in tags.text
    for shown in ("Predicted reactants: a <model>", "Answered & drawn.", "decoded without [Na+]"):
        assert shown in tags.text
    for drawing in text.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + drawing[: drawing.index("</svg>") + 6])


def test_page_is_deterministic_and_loads_nothing() -> None:
    answer = Answer(1, Query("c1ccccc1O"), Result("c1ccccc1O", (Prediction("CCO", -0.5),)))
    assert page(answer) == page(answer)
    assert "http" not in page(answer).replace("http://www.w3.org/", "").replace(
        "http://www.rdkit.org/xml", ""
    )


def test_missing_drawing_library_is_reported_before_any_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    PAGE.check()
    monkeypatch.setitem(sys.modules, "rdkit.Chem.Draw", None)
    refused("^format is 'html': RDKit cannot draw here, .*libxrender1", PAGE.check)


def test_query_with_reagents_is_drawn() -> None:
    answer = Answer(1, Query("CO>CN"), Result("CO>CN", (Prediction("CCO", -0.5),)))
    assert page(answer).count("<svg") == 2


@pytest.mark.parametrize("count", [401, 5000])
def test_huge_molecules_are_text(count: int) -> None:
    assert list(drawn("C" * count)) == [f"<code>{'C' * count}</code>"]
