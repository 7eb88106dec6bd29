import re
import sys
from xml.etree import ElementTree

import pytest

from molspec.files import FORMATS, Answer, OutputContext, Query, report
from molspec.prediction.results import Prediction, Result
from tests import refused
from tests.files.pages import Tags

CONTEXT = OutputContext("a <model>", "retro", about="Answered & drawn.")
PAGE = FORMATS["html"]


def page(*answers: Answer) -> str:
    body = "".join(PAGE.render(answer, CONTEXT) for answer in answers)
    return PAGE.head(CONTEXT) + body + PAGE.foot(CONTEXT)


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
    assert text == page(*answers)
    assert "<script" not in text
    assert {*re.findall(r"https?://[\w.]+", text)} <= {"http://www.w3.org", "http://www.rdkit.org"}
    for shown in ("<b>m & 1</b>", "88.2 %", "not a molecule to RDKit", "not SMILES: '<'"):
        assert shown in tags.text
    for shown in ("Predicted reactants: a <model>", "Answered & drawn.", "decoded without [Na+]"):
        assert shown in tags.text
    for drawing in text.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + drawing[: drawing.index("</svg>") + 6])


def test_missing_drawing_library_is_reported_before_any_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    PAGE.check()
    monkeypatch.setitem(sys.modules, "rdkit.Chem.Draw", None)
    refused("^format is 'html': RDKit cannot draw here, .*libxrender1", PAGE.check)


def test_complexes_and_reagents_are_drawn_and_huge_molecules_are_text() -> None:
    for smiles in ("C[NH2]->[Cu]", "CO>[Na+].[Cl-]", "CO>CN"):
        assert next(report.drawn(smiles)).startswith("<svg")
    for count in (401, 5000):
        assert list(report.drawn("C" * count)) == [f"<code>{'C' * count}</code>"]
