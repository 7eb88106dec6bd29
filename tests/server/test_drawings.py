from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest

from molspec.server import drawings
from molspec.server.limits import Limits
from molspec.server.service import Service


def test_molecules_of_a_reaction(client: httpx.Client) -> None:
    body = {"smiles": "CC(=O)Cl.[NH2:1]c1ccccc1", "product": "CC(=O)Nc1ccccc1"}
    drawn = client.post("/v1/draw", json=body).json()
    assert [each["smiles"] for each in drawn["molecules"]] == ["CC(=O)Cl", "Nc1ccccc1"]
    assert drawn["product"]["smiles"] == "CC(=O)Nc1ccccc1"
    for each in (*drawn["molecules"], drawn["product"]):
        root = ElementTree.fromstring(each["svg"])
        assert root.tag.endswith("}svg")
        assert "#000000" not in each["svg"]
        assert "currentColor" in each["svg"]


def test_a_molecule_alone_has_nothing_in_colour(client: httpx.Client) -> None:
    drawn = client.post("/v1/draw", json={"smiles": "CCO"}).json()
    assert drawn["product"] is None
    with_product = client.post("/v1/draw", json={"smiles": "CCO", "product": "CCCl"}).json()
    colour = "#F9B733"
    assert colour not in drawn["molecules"][0]["svg"]
    assert colour in with_product["molecules"][0]["svg"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"smiles": "C("}, "smiles"),
        ({"smiles": ""}, "smiles"),
        ({"smiles": "C" * 201}, "smiles"),
        ({"smiles": "C" * 1001}, "smiles"),
        ({"smiles": "C", "product": "<svg>"}, "product"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    client: httpx.Client, body: dict[str, Any], field: str
) -> None:
    response = client.post("/v1/draw", json=body)
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", field]


def test_drawings_are_made_one_at_a_time(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many at once would leave the event loop no turn at Python's lock."""
    at_once, most = 0, 0

    def slow(smiles: str, product: str | None) -> drawings.Drawings:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        time.sleep(0.02)
        at_once -= 1
        return drawings.Drawings(molecules=[], product=None)

    monkeypatch.setattr(drawings, "drawn", slow)
    with ThreadPoolExecutor(8) as threads:
        answers = list(
            threads.map(lambda _: client.post("/v1/draw", json={"smiles": "C"}), "x" * 8)
        )
    assert [answer.status_code for answer in answers] == [200] * 8
    assert most == 1


def test_the_event_loop_has_its_turn_between_two_pieces() -> None:
    """Pieces that queued in the thread would follow one another without it."""
    service = Service({}, Limits())

    def queued(_: int) -> int:
        time.sleep(0.001)
        return service.texts._work_queue.qsize()

    async def made() -> list[list[int]]:
        return await asyncio.gather(*(service.in_pieces(queued, [0, 1]) for _ in range(9)))

    assert asyncio.run(made()) == [[0, 0]] * 9
