"""Routes on the page in a real browser: side by side, as a link, as one file, behind a proxy."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from molspec.planners.stock import Stock
from molspec.server.app import make_app
from tests.server.browsing import LOOKS, faults, opened
from tests.server.serving import running, service, stripped

#: The answers of `/v1/plan`: three routes of three, two and one step, and an attempt of one step.
_PLANS = json.loads(Path(__file__).with_name("plans.json").read_text())
_TARGET, _HOPELESS = (_PLANS[each]["target"] for each in ("found", "not_found"))
(_LACKED,) = _PLANS["not_found"]["missing"]
_AMINE = "CS(=O)(=O)CCN"
_PICTURE, _RINGS = (Path(__file__).with_name(f"{n}.js").read_text() for n in ("picture", "rings"))
_WHOLE = {"arrows": [True] * 3, "steps": ["Step 1", "Step 2", "Step 3"], "edges": 1}


def answer(asked: Any) -> None:
    """In place of the server's models, which would have to be large."""
    body = asked.request.post_data_json
    if asked.request.url.endswith("v1/plan"):
        (plan,) = (each for each in _PLANS.values() if each["target"] == body["smiles"])
        asked.fulfill(body=json.dumps(plan) + "\n")
        return
    made = {"smiles": "CCO", "canonical": "CCO", "log_prob": -0.5, "finished": True}
    result = {"predictions": [made], "error": None, "note": None}
    asked.fulfill(json={"results": [result] * len(body["queries"])})


@pytest.fixture(scope="module", params=[*LOOKS, "behind a proxy"])
def look(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def url(look: str) -> Iterator[str]:
    planner, prefix = service(), "" if look in LOOKS else "/user/x/proxy/8000"
    planner.workers["other"].model.task = "product"
    planner.stock = Stock([_AMINE])
    app = make_app(planner)
    with running(stripped(app, prefix) if prefix else app) as url:
        yield f"{url}{prefix}/"


@pytest.fixture
def page(browser: Any, url: str, look: str) -> Iterator[Any]:
    with opened(browser, url, look) as page:
        page.route(re.compile("v1/(plan|predict|score)"), answer)
        page.wait_for_selector("#tools button")
        yield page


def plan(page: Any, smiles: str = _TARGET) -> None:
    page.evaluate("() => document.querySelector('#plan').hidden = false")  # without Syntheseus
    page.fill("#smiles", smiles)
    page.click("#plan")
    page.locator(".molecule svg").first.wait_for()
    page.get_by_text("Forward check").first.wait_for()


def shown(page: Any) -> dict[str, Any]:
    """What a reader sees of the routes."""
    page.locator('#route[aria-busy="false"] svg.drawing:visible').first.wait_for()
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


def test_routes_stand_side_by_side(page: Any) -> None:
    plan(page)
    first, second, third = shown(page)["cards"]
    assert "36.5 EUR/g, without N/A, which is not a number" in first
    assert "Steps3Probability54.9 %" in first
    for said in ("ethylamine, 12 EUR/g", "1 of 1 step: the product is among", "the same molecules"):
        assert said in third
    assert "O=Cc1ccc(-c2ccc3ncnc(Cl)c3c2)o1" in second
    assert page.evaluate(_PICTURE) == _WHOLE
    assert faults(page) == {}
    size = page.viewport_size
    page.set_viewport_size({"width": 718, "height": 1000})  # of A4
    page.emulate_media(media="print")
    assert page.evaluate(_PICTURE) == _WHOLE
    page.emulate_media(media="screen")
    page.set_viewport_size(size)
    page.click("text=Route 2")
    assert shown(page)["pressed"] == ["Route 2"]
    assert page.locator("#overview svg.drawing g line").count() > 2  # what is changed, in colour
    page.reload()
    assert shown(page)["pressed"] == ["Route 2"]
    page.click("#undo")
    assert shown(page)["pressed"] == ["Route 1"]
    assert faults(page) == {}


def test_a_link_opens_the_same_view_and_asks_nothing(
    page: Any, browser: Any, url: str, look: str
) -> None:
    plan(page)
    page.click("text=Route 2")
    before = shown(page)
    page.evaluate("() => navigator.clipboard.writeText = async (text) => window.copied = text")
    page.click("#link")
    page.get_by_role("button", name="Copied").wait_for()
    link = page.evaluate("() => copied")
    assert link.startswith(f"{url}#smiles=")
    asked: list[str] = []
    with opened(browser, link, look, asked) as other:
        assert shown(other) == before
        assert other.url == url
        other.reload()
        assert shown(other) == before
        other.goto(link[:-40])
        other.get_by_text("not a link of this page").wait_for()
        assert shown(other) == before
    assert asked == []


def test_a_file_of_all_routes_needs_no_server(
    page: Any, browser: Any, look: str, tmp_path: Path
) -> None:
    plan(page)
    before = shown(page)
    with page.expect_download() as download:
        page.select_option("#save", "html")
    assert download.value.suggested_filename == f"{_TARGET}.html"
    download.value.save_as(tmp_path / "route.html")
    page.click("#new")
    page.set_input_files("#file", tmp_path / "route.html")
    assert shown(page)["cards"] == before["cards"]
    with opened(browser, (tmp_path / "route.html").as_uri(), look, offline=True) as other:
        assert other.locator("section").count() == 3
        assert other.locator("svg.whole").count() == 3
        assert other.locator("tbody tr").count() == 6
        assert "" not in other.locator("tbody td:nth-child(5)").all_inner_texts()  # checks
        assert other.get_by_text("2-(methylsulfonyl)ethylamine").count() >= 3
        assert faults(other) == {}


def test_a_plan_is_steered_where_it_is_read(page: Any) -> None:
    asked: list[Any] = []
    page.on("request", lambda sent: sent.url.endswith("v1/plan") and asked.append(sent))
    plan(page)
    page.evaluate("() => document.querySelector('#steering').hidden = false")
    page.get_by_role("button", name="Forbid").first.click()
    page.locator("#bonds [data-bond='4-5']").wait_for(state="attached")
    for _ in range(2):  # to keep it, to break it
        page.locator("#bonds [data-bond='4-5']").dispatch_event("click")
    page.fill("[data-plan=max_steps]", "4")
    page.locator(".card.shown .steer").first.click()
    page.locator("#plan:enabled").wait_for()
    first, *_, last = [each.post_data_json for each in asked]
    assert first == {"smiles": _TARGET, "check": True}
    assert last["forbid"].endswith(f">>{_TARGET}")
    assert (last["max_steps"], last["break_bonds"]) == (4, "4-5")
    assert last["avoid"] in _PLANS["found"]["routes"][0]["leaves"]
    assert faults(page) == {}


def test_a_failed_plan_shows_its_best_attempt(page: Any) -> None:
    plan(page, _HOPELESS)
    page.locator("#note", has_text="out of time. This is the attempt that lacks").wait_for()
    assert page.locator(".lacked code").all_inner_texts() == [_LACKED]
    assert faults(page) == {}
    page.fill("#smiles", "CCO")
    page.click("#plan")
    page.get_by_text("“Bonds to keep” is '0-9'").wait_for()


def test_nothing_of_before_is_left_after_new(page: Any) -> None:
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
    page.wait_for_selector("#tools button")
    assert page.inner_text("body") == fresh


def test_tools_have_names_and_can_be_hit(page: Any) -> None:
    tools = page.locator("#tools button")
    assert tools.count() >= 20
    for index in range(tools.count()):
        box = tools.nth(index).bounding_box()
        assert min(box["width"], box["height"]) >= 40
        assert tools.nth(index).get_attribute("aria-label")
    assert page.evaluate(_RINGS) == ["over apart"] * 3
    assert faults(page) == {}


def test_an_example_is_predicted(page: Any) -> None:
    assert page.locator("[data-smiles]").count() == 3
    page.click("text=Salicylic acid")
    page.locator(".molecule svg").first.wait_for()
    assert page.input_value("#model") == "other"
    page.locator(".molecule").first.click()
    page.fill("#partners", "CN")
    page.press("#partners", "Enter")
    page.locator(".children .molecule svg").first.wait_for()
    assert page.locator(".step:last-child .query code").last.inner_text() == "CCO.CN"
    page.locator(".children .molecule").first.click()
    page.click("text=Nothing: on its own")
    page.get_by_text("Step 3: What this molecule gives on its own").wait_for()
    shown(page)
    assert page.evaluate(_PICTURE) == _WHOLE
    assert faults(page) == {}
