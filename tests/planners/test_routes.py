"""Routes and plans as they are written: no planning tool is needed."""

from __future__ import annotations

import json
import math

import pytest

from molspec.files import OutputContext, Query
from molspec.planners.formats import FORMATS
from molspec.planners.routes import Plan, Route, Step
from tests.files.test_report import _Tags

STEPS = {
    "CC(=O)Nc1ccccc1": Step("CC(=O)Nc1ccccc1", ("CC(=O)Cl", "Nc1ccccc1"), math.log(0.5)),
    "Nc1ccccc1": Step("Nc1ccccc1", ("O=[N+]([O-])c1ccccc1",), math.log(0.4)),
    "never": Step("never", ("asked",), -1.0),
}
ROUTE = Route.of("CC(=O)Nc1ccccc1", STEPS)
CONTEXT = OutputContext("retro", "retro", about="Found & drawn.")
PLANS = (
    Plan(1, Query("CC(=O)Nc1ccccc1", "<amide>"), (ROUTE,), 7, 1.25, 0.5),
    Plan(2, Query("CC("), error="not a molecule to RDKit"),
    Plan(3, Query("CCO"), (Route(()),)),
    Plan(4, Query("CCN"), expansions=3, seconds=2),
)


def written(form: str) -> str:
    rendered = "".join(FORMATS[form].render(plan, CONTEXT) for plan in PLANS)
    return FORMATS[form].head(CONTEXT) + rendered + FORMATS[form].foot(CONTEXT)


def test_a_route_is_read_from_its_target_on() -> None:
    assert [step.product for step in ROUTE.steps] == ["CC(=O)Nc1ccccc1", "Nc1ccccc1"]
    assert ROUTE.leaves == ("CC(=O)Cl", "O=[N+]([O-])c1ccccc1")
    assert ROUTE.log_prob == pytest.approx(math.log(0.2))
    assert ROUTE.steps[0].reaction == "CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1"


def test_text() -> None:
    text = written("text")
    for expected in (
        "1 route, the first after 0.50 s, 7 molecules asked in 1.25 s",
        "route 1: 2 steps, 20 %",
        "40.0 %  O=[N+]([O-])c1ccccc1>>Nc1ccccc1",
        "to buy  CC(=O)Cl  O=[N+]([O-])c1ccccc1",
        "error: not a molecule to RDKit",
        "in stock",
        "no route found, 3 molecules asked in 2.00 s",
    ):
        assert expected in text


def test_json() -> None:
    values = [json.loads(line) for line in written("jsonl").splitlines()]
    assert [each["id"] for each in values] == ["<amide>", "2", "3", "4"]
    assert values[0]["routes"][0]["leaves"] == list(ROUTE.leaves)
    assert values[1]["error"] == "not a molecule to RDKit"
    assert values[2]["routes"] == [{"log_prob": 0, "leaves": [], "steps": []}]


def test_a_page_of_drawings() -> None:
    page = written("html")
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    assert page.count("<svg") == 3 + 3 + 2  # targets that are molecules, and those of two steps
    for shown in ("<amide>", "Routes: retro", "Found & drawn.", "to buy", "to make", "step 2"):
        assert shown in tags.text
