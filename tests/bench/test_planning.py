"""Curves, tables and pictures of the planning benchmark."""

from __future__ import annotations

from xml.etree import ElementTree

from peering.routes import curve, markdown, picture
from peering.trial import Trial

TRIALS = [
    Trial("molspec int8", "n1", "CCO", 1.0, 0.05, 0.05, 0.04, 2),
    Trial("molspec int8", "n1", "CCN", 1.0, 0.4, 0.4, 0.3, 9),
    Trial("CTranslate2 int8", "n1", "CCO", 0.3, 0.2, 0.2, 0.15, 2),
    Trial("CTranslate2 int8", "n1", "CCN", 0.3, None, 0.3, 0.2, 2),
    Trial("CTranslate2 int8", "n1", "CCN", 1.0, None, 1.0, 0.9, 8),
    Trial("molspec int8", "n1", "taken by one alone", 1.0, 0.01, 0.01, 0.01, 1),
]


def test_shares_are_of_trials_with_enough_time() -> None:
    def trial(limit: float, first: float | None) -> Trial:
        return Trial("molspec int8", "n1", "CCO", limit, first, 1.0, 1.0, 1)

    trials = [trial(1.0, 0.1), trial(0.3, 0.35), trial(1.0, 0.4), trial(1.0, None)]
    assert curve(trials) == [(0.1, 0.25), (0.4, 0.625)]
    assert [share for _, share in curve(TRIALS[:2])] == [0.5, 1]


def test_the_table_counts_targets_that_all_engines_searched() -> None:
    lines = markdown(TRIALS, {"n_best": 10}).splitlines()
    assert "## n1" in lines
    rows = [line for line in lines if line.startswith("| ")]
    assert rows == [
        "| engine | 0.1 s of 2 | 0.3 s of 2 | 1 s of 2 "
        "| median | expansions a second | model's share |",
        "| molspec int8 | 1 | 1 | 2 | 0.05 s | 24.4 | 76% |",
        "| CTranslate2 int8 | 0 | 1 | 1 | 0.20 s | 8.3 | 88% |",
    ]


def test_targets_after_an_unsearched_one_do_not_count() -> None:
    stopped = [
        *(Trial("molspec int8", "n1", target, 0.3, None, 0.3, 0.3, 1) for target in ("C", "N")),
        Trial("molspec int8", "n1", "O", 0.3, 0.1, 0.1, 0.1, 1),
        Trial("molspec int8", "n1", "C", 1.0, 0.5, 0.5, 0.5, 1),
    ]
    assert "| engine | 0.1 s of 3 | 0.3 s of 3 | 1 s of 1 |" in markdown(stopped, {})


def test_an_engine_with_less_time_has_no_figure() -> None:
    lines = markdown(TRIALS[:4], {}).splitlines()
    (row,) = (line for line in lines if line.startswith("| CTranslate2"))
    assert row.startswith("| CTranslate2 int8 | 0 | 1 |  |")


def test_the_picture_has_one_curve_for_each_engine() -> None:
    root = ElementTree.fromstring(picture(TRIALS))
    curves = [each for each in root.iter() if each.get("stroke-width") == "2"]
    assert len(curves) == 2
