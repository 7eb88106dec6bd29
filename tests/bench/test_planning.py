"""What the bench of planning makes of its trials."""

from __future__ import annotations

from xml.etree import ElementTree

from peering.routes import markdown, picture, solved
from peering.trial import Trial

TRIALS = [
    Trial("molspec int8", "n1", "CCO", 0.05, 0.05, 0.04, 2),
    Trial("molspec int8", "n1", "CCN", 0.4, 0.4, 0.3, 9),
    Trial("CTranslate2 int8", "n1", "CCO", 0.2, 0.2, 0.15, 2),
    Trial("CTranslate2 int8", "n1", "CCN", None, 1.0, 0.9, 8),
    Trial("molspec int8", "n1", "taken by one alone", 0.01, 0.01, 0.01, 1),
]


def test_targets_are_solved_within_limits() -> None:
    assert [solved(TRIALS[:2], limit) for limit in (0.01, 0.05, 0.3, 0.4)] == [0, 1, 1, 2]
    assert solved(TRIALS[2:4], 15) == 1


def test_the_table_has_targets_that_all_engines_took() -> None:
    lines = markdown(TRIALS, {"seconds": 1.0}).splitlines()
    assert "## n1, 2 targets" in lines
    rows = [line for line in lines if line.startswith("| ")]
    assert rows == [
        "| engine | 0.1 s | 0.3 s | 1 s | median | expansions a second | model's share |",
        "| molspec int8 | 1 | 1 | 2 | 0.23 s | 24.4 | 76% |",
        "| CTranslate2 int8 | 0 | 1 | 1 | none | 8.3 | 88% |",
    ]


def test_the_picture_has_a_curve_an_engine() -> None:
    root = ElementTree.fromstring(picture(TRIALS, 1.0))
    curves = [each for each in root.iter() if each.get("stroke-width") == "2"]
    assert len(curves) == 2
