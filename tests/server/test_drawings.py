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


def test_molecules_of_a_reaction_are_drawn(client: httpx.Client) -> None:
    body = {"smiles": "CC(=O)Cl.[NH2:1]c1ccccc1", "product": "CC(=O)Nc1ccccc1"}
    drawn = client.post("/v1/draw", json=body).json()
    assert [drawing["smiles"] for drawing in drawn["molecules"]] == ["CC(=O)Cl", "Nc1ccccc1"]
    assert drawn["product"]["smiles"] == "CC(=O)Nc1ccccc1"
    for drawing in (*drawn["molecules"], drawn["product"]):
        root = ElementTree.fromstring(drawing["svg"])
        assert root.tag.endswith("}svg")
        assert "#000000" not in drawing["svg"]
        assert "currentColor" in drawing["svg"]


def test_a_molecule_without_a_product_is_not_coloured(client: httpx.Client) -> None:
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
        ({"smiles": "CCO aspirin"}, "smiles"),
        ({"smiles": "C" * 201}, "smiles"),
        ({"smiles": "C" * 1001}, "smiles"),
        ({"smiles": "C", "product": "<svg>"}, "product"),
    ],
)
def test_an_undrawable_molecule_is_refused(
    client: httpx.Client, body: dict[str, Any], field: str
) -> None:
    response = client.post("/v1/draw", json=body)
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", field]


def test_drawings_are_made_one_at_a_time(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many at once would keep the event loop from Python's lock."""
    running_count, largest_count = 0, 0

    def slow(smiles: str, product: str | None) -> drawings.Drawings:
        nonlocal running_count, largest_count
        running_count += 1
        largest_count = max(largest_count, running_count)
        time.sleep(0.02)
        running_count -= 1
        return drawings.Drawings(molecules=[], product=None)

    monkeypatch.setattr(drawings, "drawn", slow)
    with ThreadPoolExecutor(8) as threads:
        answers = list(
            threads.map(lambda _: client.post("/v1/draw", json={"smiles": "C"}), "x" * 8)
        )
    assert [answer.status_code for answer in answers] == [200] * 8
    assert largest_count == 1


def test_the_event_loop_runs_between_two_pieces() -> None:
    """If pieces queued in the thread, the event loop could not run between them."""
    service = Service({}, Limits())

    def queue_size(_: int) -> int:
        time.sleep(0.001)
        return service.texts._work_queue.qsize()

    async def run_pieces() -> list[list[int]]:
        return await asyncio.gather(*(service.in_pieces(queue_size, [0, 1]) for _ in range(9)))

    assert asyncio.run(run_pieces()) == [[0, 0]] * 9
