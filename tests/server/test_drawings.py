import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest

from molspec.server import artist
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


def cage(atoms: int, step: int) -> str:
    """A ring of atoms, each with a bond across: RDKit's searches in it take minutes or for ever."""
    half = range(0, atoms, 2)
    pairs = [(i, (i + step) % atoms) for i in half] + [(0, atoms - 1)]
    closures: list[str] = [""] * atoms
    for number, pair in enumerate(pairs, start=10):
        for place in pair:
            closures[place] += f"%{number}"
    return "".join(f"C{each}" for each in closures)


def test_a_drawing_that_takes_rdkit_minutes_ends_alone(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artist, "_SECONDS", 0.5)
    monkeypatch.setattr(artist, "_LONGEST_WAIT", 100)
    with ThreadPoolExecutor(1) as threads:
        hard = {"smiles": cage(80, 7), "product": cage(80, 31)}
        drawing = threads.submit(client.post, "/v1/draw", json=hard)
        body = {"model": "retro", "queries": ["CCO"], "max_length": 6}
        for _ in range(3):
            assert client.post("/v1/predict", json=body).status_code == 200
        refused = drawing.result(60)
    assert refused.status_code == 422
    assert "GiB to draw: expected simpler ones" in refused.json()["detail"][0]["msg"]
    assert client.post("/v1/draw", json={"smiles": "CCO"}).status_code == 200


def test_drawings_beyond_those_that_may_wait_are_refused(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artist, "_MOST_WAITING", 0)
    refused = client.post("/v1/draw", json={"smiles": "C"})
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")


def test_a_drawing_waits_for_others_for_some_seconds_only(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has begun is never refused as one that waits, however long it takes."""
    monkeypatch.setattr(artist, "_LONGEST_WAIT", 0.01)
    begun, ended = Event(), Event()

    def ask(self: artist.Artist, smiles: str, product: str | None) -> ValueError:
        begun.set()
        ended.wait(60)
        return ValueError("too hard")

    monkeypatch.setattr(artist.Artist, "_ask", ask)
    with ThreadPoolExecutor(1) as pool:
        hard = pool.submit(client.post, "/v1/draw", json={"smiles": "CCCN"})
        assert begun.wait(60)
        waiting = client.post("/v1/draw", json={"smiles": "CCCO"})
        ended.set()
        assert hard.result().status_code == 422
    assert waiting.status_code == 429
    assert "too many drawings are waiting" in waiting.text


def test_the_event_loop_runs_between_two_pieces() -> None:
    """If pieces queued in the thread, the event loop could not run between them."""
    service = Service({}, Limits())

    def queue_size(_: int) -> int:
        time.sleep(0.001)
        return service.texts._work_queue.qsize()

    async def run_pieces() -> list[list[int]]:
        return await asyncio.gather(*(service.in_pieces(queue_size, [0, 1]) for _ in range(9)))

    assert asyncio.run(run_pieces()) == [[0, 0]] * 9
