"""The page in a real browser, also dark or on a phone: predict, plan, reload, undo, save."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rdkit.Chem import MolFromSmiles, MolToMolBlock

from molspec.planners.stock import Stock
from molspec.prediction.model import load
from molspec.server import service, worker
from molspec.server.limits import Limits
from tests.server.browsing import LOOKS, faults, opened
from tests.server.serving import serving

_ACID = "CC(C)(C)OC(=O)N1CCC(C(=O)O)CC1"
_AMIDE = "CC(C)(C)OC(=O)N1CCC(CC1)C(=O)Nc1ccccc1"


@pytest.fixture(scope="module")
def url(browser: Any) -> Iterator[str]:
    limits = Limits()
    workers = {name: worker.Worker(name, load(name)) for name in ("product", "retro")}
    stock = Stock([_ACID])
    stock.add("Nc1ccccc1", "aniline", "3 EUR/g")
    with serving(service.Service(workers, limits, stock)) as url:
        yield url


@pytest.fixture(params=LOOKS)
def page(browser: Any, url: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    with opened(browser, url, request.param) as page:
        page.wait_for_selector("#editor canvas")
        yield page


def test_the_page_says_which_part_of_a_salt_is_decoded(page: Any) -> None:
    page.fill("#smiles", "CCN(CC)CC(=O)Nc1ccccc1.Cl")
    page.press("#smiles", "Enter")
    note = page.get_by_text("decoded as CCN(CC)CC(=O)Nc1ccccc1, without Cl")
    note.wait_for()
    page.get_by_text("Forward check: ").first.wait_for()
    assert page.locator(".query .changed").count() == 1
    page.click("#unfold")
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


def step_with(page: Any, answers: int, index: int) -> Any:
    """The last step, which is this one and has so many answers, drawn and scrolled to."""
    step = page.locator(".step").nth(index)
    step.locator(".molecule svg").first.wait_for()
    page.wait_for_load_state("networkidle")
    assert step.locator(".answer").count() == answers
    return step


def is_in_view(page: Any, locator: Any) -> bool:
    for _ in range(50):
        page.wait_for_timeout(200)  # it moves smoothly
        box = locator.bounding_box()
        if box and box["y"] >= 0 and box["y"] + 60 < page.viewport_size["height"]:
            return True
    return False


def save(page: Any, kind: str, path: Path) -> Path:
    with page.expect_download() as download:
        page.select_option("#save", kind)
    assert download.value.suggested_filename == f"{_AMIDE}.{kind}"
    download.value.save_as(path / f"route.{kind}")
    return path / f"route.{kind}"


def test_a_route_outlives_a_reload_and_is_saved(page: Any, tmp_path: Path) -> None:
    page.fill("#smiles", _AMIDE)
    page.press("#smiles", "Enter")
    assert is_in_view(page, step_with(page, 5, 0).locator(".answer").first)
    assert not page.is_visible("#editor")
    page.locator(".molecule").first.click()
    assert is_in_view(page, step_with(page, 5, 1).locator(".answer").first)
    page.locator(".children .molecule").first.click()
    step_with(page, 5, 2)
    assert page.evaluate("() => document.activeElement.id") == "step-3"
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("svg.whole [data-step]").count() == 3
    assert faults(page) == {}
    page.reload()
    step_with(page, 5, 2)
    assert page.input_value("#smiles") == _AMIDE
    reactions = save(page, "rsmi", tmp_path).read_text().splitlines()
    assert len(reactions) == 3
    assert reactions[-1].endswith(f">>{_AMIDE}")
    page.click("#undo")
    page.locator(".step").nth(2).wait_for(state="detached")
    page.wait_for_load_state("networkidle")
    (route,) = json.loads(save(page, "json", tmp_path).read_text())["routes"]
    (chosen,) = [answer for answer in route["answers"] if answer["chosen"]]
    assert f"{chosen['canonical']}>>{_AMIDE}" == reactions[-1]
    assert save(page, "svg", tmp_path).read_text().count("<g") >= 3
    assert save(page, "png", tmp_path).read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(save(page, "csv", tmp_path).read_text().splitlines()))
    assert [f"{row['reactants']}>>{row['product']}" for row in rows] == reactions[1:]
    sold = [rows[-1][each] for each in ("for_sale", "count", "names", "prices")]
    assert sold == [f"{_ACID}.Nc1ccccc1", "2", "; aniline", "; 3 EUR/g"]
    assert float(rows[-1]["forward_check"]) > 0.5
    page.click("#new")
    assert page.locator(".step").count() == 0
    page.set_input_files("#file", tmp_path / "route.json")
    page.locator(".step").nth(1).wait_for()
    (tmp_path / "other.json").write_text("[]")
    page.set_input_files("#file", tmp_path / "other.json")
    page.get_by_text("other.json holds no route that this page saved").wait_for()
    assert page.locator(".step").count() == 2


def test_a_target_is_planned_from_what_is_for_sale(page: Any) -> None:
    pytest.importorskip("syntheseus", reason="Syntheseus is not installed")
    page.fill("#smiles", "Nc1ccccc1")
    page.click("#plan")
    page.get_by_text("The target is in stock: aniline.").wait_for()
    page.fill("#smiles", _AMIDE)
    page.click("#plan")
    page.locator(".molecule svg").first.wait_for()
    assert page.inner_text("#form-error") == ""
    page.get_by_text("in stock: aniline, 3 EUR/g").first.wait_for()
    page.get_by_text("Forward check: 9").first.wait_for()
    page.fill("#smiles", "CC(C)Cc1ccc(cc1)C(C)C(=O)NCCN1CCOCC1")
    page.click("#plan")
    page.get_by_text("looked at in").first.wait_for()
    assert is_in_view(page, page.locator("#cancel"))
    page.click("#cancel")
    page.wait_for_selector("#plan:enabled")
    assert page.inner_text("#form-error") == ""
    page.click("#plan")
    page.get_by_text("looked at in").first.wait_for()
    page.click("#new")  # other work ends the search, which would replace it
    page.wait_for_selector("#plan:enabled")
    assert page.locator(".step").count() == 0
    assert page.is_disabled("#save")


def test_a_drawn_molecule_is_submitted_by_keyboard(page: Any) -> None:
    box = page.locator("#editor").bounding_box()
    page.get_by_role("button", name="Benzene").click()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_timeout(300)
    assert page.input_value("#smiles").lower() in ("c1ccccc1", "c1=cc=cc=c1")
    page.get_by_role("button", name="Clear all").click()
    page.get_by_role("button", name="Bond").click()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_timeout(300)
    assert page.input_value("#smiles") in ("CC", "C")
    page.focus("#count")
    page.keyboard.press("Enter")
    page.wait_for_selector(".step")


def test_what_chemists_paste_is_read(page: Any) -> None:
    acid = "C[C@H](O)C(=O)Nc1ccccc1"
    pasted = {
        "InChI=1S/C8H9NO/c1-7(10)9-8-5-3-2-4-6-8/h2-6H,1H3,(H,9,10)": "CC(=O)Nc1ccccc1",
        "CC(=O)Cl.NCc1ccccc1>>CC(=O)NCc1ccccc1": "CC(=O)NCc1ccccc1",
        "\n\n" + MolToMolBlock(MolFromSmiles("CCO")): "CCO",
    }
    for text, smiles in pasted.items():
        page.fill("#smiles", text)
        page.click("button.main")
        page.locator(".step .query code", has_text=smiles).wait_for()
        assert page.input_value("#smiles") == smiles
    page.fill("#smiles", f"{acid} |&1:1|")
    page.click("button.main")
    page.get_by_text("which stands for the racemate").wait_for()
    page.click("#ask-form")
    page.locator(".query code", has_text=acid).wait_for()
    page.fill("#smiles", "[2H]C([2H])([2H])Oc1ccccc1")
    page.click("button.main")
    page.locator("#smiles-error", has_text="“Read deuterium as hydrogen if").wait_for()
    page.click("#ask-hydrogen")
    page.get_by_text("with hydrogen for deuterium").wait_for()
    page.go_back()
    page.locator(".query code", has_text=acid).wait_for()


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
