"""Routes on the page in a real browser: side by side, as a link, as one file, behind a proxy."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from molspec.planners.stock import Stock
from molspec.server.app import make_app
from molspec.server.service import Service
from tests.server.browsing import LOOKS, faults, opened
from tests.server.serving import running, service, stripped

_ANILINE = "Nc1ccc(OCc2cccc(F)c2)c(Cl)c1"
_NITRO = _ANILINE.replace("N", "O=[N+]([O-])", 1)
_ALDEHYDE = f"O=Cc1ccc(-c2ccc3ncnc({_ANILINE.replace('Nc1', 'Nc4', 1)})c3c2)o1".replace(
    "c4ccc(OCc2cccc(F)c2)c(Cl)c1", "c4ccc(OCc5cccc(F)c5)c(Cl)c4"
)
_TARGET = _ALDEHYDE.replace("O=C", "CS(=O)(=O)CCNC", 1)
_AMINE, _CHLORIDE = "CS(=O)(=O)CCN", "O=Cc1ccc(-c2ccc3ncnc(Cl)c3c2)o1"
_LAST = (f"{_AMINE}.{_ALDEHYDE}>>{_TARGET}", -0.1)
_COUPLING = (f"{_CHLORIDE}.{_ANILINE}>>{_ALDEHYDE}", -0.3)
_ROUTES = [
    [(f"{_NITRO}>>{_ANILINE}", -0.2), _COUPLING, _LAST],
    [_COUPLING, _LAST],
    [_LAST],
]
_HOPELESS = "CC(C)Cc1ccc(cc1)C(C)C(=O)NCCN1CCOCC1"


def route(steps: list[tuple[str, float]]) -> dict[str, Any]:
    """As the server's JSON has it."""
    made = {reaction.partition(">>")[2] for reaction, _ in steps}
    needed = (each for reaction, _ in steps for each in reaction.partition(">>")[0].split("."))
    return {
        "log_prob": sum(log_prob for _, log_prob in steps),
        "leaves": [each for each in dict.fromkeys(needed) if each not in made],
        "steps": [{"reaction": e, "log_prob": log_prob, "racemic": []} for e, log_prob in steps],
    }


_FOUND: dict[str, Any] = {
    "expansions": 31,
    "seconds": 4.2,
    "stopped": None,
    "error": None,
    "missing": [],
    "routes": [route(steps) for steps in _ROUTES],
    "names": {_AMINE: "2-(methylsulfonyl)ethylamine"},
    "prices": {_AMINE: "12 EUR/g", _CHLORIDE: "24.5 EUR/g"},
    "bought": {},
    "attempt": None,
}
_LACKED = "CC(C)Cc1ccc(C(C)C(=O)O)cc1"
_NOT_FOUND = {
    **_FOUND,
    "routes": [],
    "stopped": "out of time",
    "missing": [_LACKED],
    "attempt": route([(f"{_LACKED}.NCCN1CCOCC1>>{_HOPELESS}", -0.1)]),
}


def answer(asked: Any) -> None:
    """In place of the server's models, which would have to be large."""
    body = asked.request.post_data_json
    if asked.request.url.endswith("v1/plan"):
        found = _FOUND if body["smiles"] == _TARGET else _NOT_FOUND
        asked.fulfill(body=json.dumps(found) + "\n")
        return
    made = {"smiles": "CCO", "canonical": "CCO", "log_prob": -0.5, "finished": True}
    result = {"predictions": [made], "error": None, "note": None}
    asked.fulfill(json={"results": [result] * len(body["queries"])})


@pytest.fixture(scope="module")
def planner(browser: Any) -> Service:
    served = service()
    served.workers["other"].model.task = "product"
    return Service(served.workers, served.limits, Stock([_AMINE]))


@pytest.fixture(scope="module", params=["", "/user/x/proxy/8000"], ids=["bare", "behind a proxy"])
def url(planner: Service, request: pytest.FixtureRequest) -> Iterator[str]:
    app = make_app(planner)
    with running(stripped(app, request.param) if request.param else app) as url:
        yield f"{url}{request.param}/"


@pytest.fixture(params=LOOKS)
def look(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def plan(page: Any, smiles: str = _TARGET) -> None:
    page.route("**/v1/plan", answer)
    page.route("**/v1/predict", answer)
    page.route("**/v1/score", answer)
    page.evaluate("() => document.querySelector('#plan').hidden = false")  # without Syntheseus
    page.fill("#smiles", smiles)
    page.click("#plan")
    page.locator(".molecule svg").first.wait_for()
    page.get_by_text("Forward check").first.wait_for()


def shown(page: Any) -> dict[str, Any]:
    """What a reader sees of the routes."""
    page.locator('#route[aria-busy="false"] svg.drawing').first.wait_for()
    page.wait_for_load_state("networkidle")
    return {
        "cards": page.locator(".card").all_text_contents(),
        "pressed": page.locator('.card [aria-pressed="true"]').all_text_contents(),
        "numbers": page.locator("#overview .number").all_text_contents(),
        "drawings": page.locator("svg.drawing").count(),
        "answers": page.locator(".answer").all_text_contents(),
        "target": page.input_value("#smiles"),
        "task": page.input_value("#model"),
    }


def test_routes_stand_side_by_side(browser: Any, url: str, look: str) -> None:
    with opened(browser, url, look) as page:
        plan(page)
        first, second, third = shown(page)["cards"]
        assert "36.5 EUR/g, and 1 without a price" in first
        assert "3, 3 in a row" not in first
        assert "54.9 %" in first
        assert "2-(methylsulfonyl)ethylamine, 12 EUR/g" in third
        assert _CHLORIDE in second
        assert sorted(shown(page)["numbers"]) == ["Step 1", "Step 2", "Step 3"]
        assert faults(page) == {}
        page.click("text=Route 2")
        assert shown(page)["pressed"] == ["Route 2"]
        assert page.locator(".step").count() == 2
        page.reload()
        assert shown(page)["pressed"] == ["Route 2"]
        page.click("#undo")
        assert shown(page)["pressed"] == ["Route 1"]
        assert faults(page) == {}


def test_a_link_opens_the_same_view_and_asks_nothing(browser: Any, url: str, look: str) -> None:
    with opened(browser, url, look) as page:
        plan(page)
        page.click("text=Route 2")
        before = shown(page)
        page.evaluate("""() => {
            navigator.clipboard.writeText = async (text) => (window.copied = text);
        }""")
        page.click("#link")
        page.get_by_role("button", name="Copied").wait_for()
        link = page.evaluate("() => copied")
    assert link.startswith(f"{url}#smiles=")
    asked: list[str] = []
    with opened(browser, link, look, asked) as page:
        assert shown(page) == before
        assert page.url == url
        page.reload()
        assert shown(page) == before
        page.goto(link[:-40])
        page.get_by_text("not a link of this page").wait_for()
        assert shown(page) == before
    assert asked == []


def test_a_file_of_all_routes_needs_no_server(
    browser: Any, url: str, look: str, tmp_path: Path
) -> None:
    with opened(browser, url, look) as page:
        plan(page)
        before = shown(page)
        with page.expect_download() as download:
            page.select_option("#save", "html")
        name = download.value.suggested_filename
        assert name == f"{_TARGET}.html"
        download.value.save_as(tmp_path / "route.html")
        page.click("#new")
        page.set_input_files("#file", tmp_path / "route.html")
        assert shown(page)["cards"] == before["cards"]
    with opened(browser, (tmp_path / "route.html").as_uri(), look, offline=True) as page:
        assert page.locator("section").count() == 3
        assert page.locator("svg.whole").count() == 3
        assert page.locator("tbody tr").count() == 6
        assert page.get_by_text("2-(methylsulfonyl)ethylamine").count() >= 3
        assert faults(page) == {}


def test_a_failed_plan_shows_its_best_attempt(browser: Any, url: str, look: str) -> None:
    with opened(browser, url, look) as page:
        plan(page, _HOPELESS)
        note = page.locator("#note").inner_text()
        assert "out of time" in note
        assert "one molecule is not for sale" in note
        assert page.locator(".lacked code").all_inner_texts() == [_LACKED]
        assert faults(page) == {}


def test_nothing_of_before_is_left_after_new(browser: Any, url: str, look: str) -> None:
    with opened(browser, url, look) as page:
        page.wait_for_selector("#editor canvas")
        fresh = page.inner_text("body")
        plan(page)
        page.click("#unfold")
        page.check("#salts")
        page.fill("#count", "9")
        page.click("#new")
        assert page.inner_text("body") == fresh
        values = [page.input_value(each) for each in ("#smiles", "#count", "#model")]
        assert values == ["", "5", "retro"]
        assert not page.is_checked("#salts")
        page.reload()
        page.wait_for_selector("#editor canvas")
        assert page.inner_text("body") == fresh


def test_tools_have_names_and_can_be_hit(browser: Any, url: str, look: str) -> None:
    with opened(browser, url, look) as page:
        page.wait_for_selector("#tools button")
        tools = page.locator("#tools button")
        assert tools.count() >= 20
        for index in range(tools.count()):
            box = tools.nth(index).bounding_box()
            assert min(box["width"], box["height"]) >= 40
            assert tools.nth(index).get_attribute("aria-label")
        assert faults(page) == {}


def test_an_example_is_predicted(browser: Any, url: str, look: str) -> None:
    with opened(browser, url, look) as page:
        page.route("**/v1/predict", answer)
        page.route("**/v1/score", answer)
        assert page.locator("[data-smiles]").count() == 3
        page.click("text=Salicylic acid")
        page.locator(".molecule svg").first.wait_for()
        assert page.input_value("#model") == "other"
