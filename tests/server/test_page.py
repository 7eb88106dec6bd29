"""The page in a real browser, also dark or narrow: draw, predict, extend a route, export."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from molspec.prediction.model import load
from molspec.server.limits import Limits
from molspec.server.service import Service
from molspec.server.worker import Worker
from tests.server.serving import serving

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright"
)
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_BROWSER = next(filter(None, map(shutil.which, _NAMES)), "")
pytestmark = pytest.mark.skipif(not _BROWSER, reason="no Chromium is installed")

_FLAGS = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
_AMIDE = "CC(C)(C)OC(=O)N1CCC(CC1)C(=O)Nc1ccccc1"
#: A time limit in milliseconds; it is long because test machines are busy.
_PATIENCE = 120_000
_LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 390, "height": 844}},
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    limits = Limits()
    workers = {name: Worker(name, load(name)) for name in ("product", "retro")}
    with serving(Service(workers, limits)) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_BROWSER, args=_FLAGS.split())
        yield browser
        browser.close()


@pytest.fixture(params=_LOOKS)
def page(browser: Any, url: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    context = browser.new_context(accept_downloads=True, **_LOOKS[request.param])
    page = context.new_page()
    page.set_default_timeout(_PATIENCE)
    errors: list[str] = []
    hosts: set[str] = set()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.on("request", lambda outgoing: hosts.add(outgoing.url.split("/")[2]))
    page.goto(url)
    page.wait_for_selector("#editor canvas")
    yield page
    context.close()
    assert errors == []
    assert hosts == {url.removeprefix("http://")}


def test_the_page_says_which_part_of_a_salt_is_decoded(page: Any) -> None:
    page.fill("#smiles", "CCN(CC)CC(=O)Nc1ccccc1.Cl")
    page.click("button.main")
    note = page.get_by_text("decoded as CCN(CC)CC(=O)Nc1ccccc1, without Cl")
    note.wait_for()
    page.check("#salts")
    page.click("button.main")
    note.wait_for(state="detached")


def test_reactants_are_asked_about(page: Any) -> None:
    page.fill("#smiles", "CC(=O)Cl.Nc1ccccc1")
    page.click("button.main")
    page.click("text=Predict their product?")
    page.wait_for_selector(".molecule svg")
    assert page.locator(".answer code").first.inner_text() == "CC(=O)Nc1ccccc1"
    assert page.input_value("#model") == "product"
    assert page.inner_text("#smiles-error") == ""


def test_a_route_grows_by_clicks_and_is_exported(page: Any, tmp_path: Path) -> None:
    page.fill("#smiles", _AMIDE)
    page.press("#smiles", "Control+Enter")
    page.wait_for_selector(".molecule svg")
    assert page.locator(".answer").count() == 5
    page.locator(".molecule").first.click()
    page.wait_for_selector(".children .molecule svg")
    page.locator(".children .molecule").first.click()
    page.wait_for_selector(".children .children .molecule svg")
    page.wait_for_load_state("networkidle")
    assert page.evaluate("() => document.activeElement.id") == "step-3"
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    exported = {}
    for kind in ("json", "rsmi", "svg"):
        with page.expect_download() as download:
            page.click(f"[data-export={kind}]")
        exported[kind] = tmp_path / f"route.{kind}"
        download.value.save_as(exported[kind])
    reactions = exported["rsmi"].read_text().splitlines()
    assert len(reactions) == 3
    assert reactions[0].endswith(f">>{_AMIDE}")
    route = json.loads(exported["json"].read_text())
    (chosen,) = [answer for answer in route["answers"] if answer["chosen"]]
    assert f"{chosen['canonical']}>>{_AMIDE}" == reactions[0]
    assert exported["svg"].read_text().count("<g>") >= 4


def test_a_drawn_molecule_is_submitted_by_keyboard(page: Any) -> None:
    box = page.locator("#editor").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)  # a bond
    page.wait_for_timeout(300)
    drawn = page.input_value("#smiles")
    assert drawn in ("CC", "C")
    page.focus("#count")
    page.keyboard.press("Enter")
    page.wait_for_selector(".step")


def test_errors_appear_at_their_fields(page: Any) -> None:
    page.click("button.main")
    assert page.inner_text("#smiles-error") == "Draw a molecule, or paste its SMILES."
    page.fill("#smiles", "CC(")
    page.fill("#count", "99")
    page.click("button.main")
    assert page.inner_text("#form-error") == "Answers: a whole number from 1 to 50."
    page.fill("#count", "2")
    page.click("button.main")
    page.wait_for_selector("#smiles-error:not(:empty)")
    assert "not a molecule to RDKit" in page.inner_text("#smiles-error")
    assert page.locator(".step").count() == 0
