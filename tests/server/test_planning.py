"""`/v1/plan`: routes from the server's stock, in lines; who leaves ends the search."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from molspec.planners.stock import Stock
from molspec.prediction.model import load
from molspec.server.limits import Limits
from molspec.server.service import Service
from molspec.server.worker import Worker
from tests.server.serving import serving

ACID, AMIDE = "CC(C)(C)OC(=O)N1CCC(C(=O)O)CC1", "CC(C)(C)OC(=O)N1CCC(C(=O)Nc2ccccc2)CC1"
#: Its reactants are not in the stock, nor theirs.
HOPELESS = "CC(C)Cc1ccc(cc1)C(C)C(=O)NCCN1CCOCC1"


@pytest.fixture(scope="module")
def service() -> Service:
    pytest.importorskip("syntheseus", reason="Syntheseus is not installed")
    retro = Worker("retro", load("retro", dtype="int8"))
    stock = Stock([ACID])
    stock.add("Nc1ccccc1", "aniline", "")
    product = Worker("product", load("product", dtype="int8"))
    return Service({"retro": retro, "product": product}, Limits(n_best=9), stock)


@pytest.fixture(scope="module")
def planner(service: Service) -> Iterator[httpx.Client]:
    with serving(service) as url, httpx.Client(base_url=url, timeout=300) as client:
        yield client


def plan(client: httpx.Client, smiles: str, **limits: Any) -> dict[str, Any]:
    response = client.post("/v1/plan", json={"smiles": smiles, **limits})
    assert response.status_code == 200
    last: dict[str, Any] = json.loads(response.text.splitlines()[-1])
    return last


@pytest.mark.filterwarnings("default")
def test_routes_start_from_molecules_for_sale(
    planner: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert planner.get("/v1/models").json()["plans"]
    assert planner.post("/v1/plan", json={"smiles": AMIDE, "n_best": 10}).status_code == 422
    found = plan(planner, AMIDE, routes=1, seconds=50.0)
    (route,) = found["routes"]
    assert route["steps"][0]["reaction"] == f"{ACID}.Nc1ccccc1>>{AMIDE}"
    assert found["names"] == {"Nc1ccccc1": "aniline"}
    labelled = AMIDE.replace("N1CCC", "N1CC([2H])C", 1)
    assert "[2H]" in plan(planner, labelled, routes=1)["error"]
    assert "[2H]" not in caplog.text  # a server's log has no molecules
    found = plan(planner, labelled, routes=1, seconds=50.0, deuterium_as_hydrogen=True)
    assert found["note"] == f"decoded as {AMIDE}, with hydrogen for deuterium"
    assert found["routes"] == [route]
    (route,) = plan(planner, AMIDE, routes=1, seconds=50.0, sort="price", check=True)["routes"]
    assert (route["confirmed"], route["steps"][-1]["check"]["answer"]) == (True, None)
    assert plan(planner, "Nc1ccccc1.Cl")["routes"][0]["steps"] == []
    assert "not a salt" in plan(planner, "CC(=O)Cl.Nc1ccccc1")["error"]


@pytest.mark.filterwarnings("default")
def test_a_search_ends_in_time_or_with_its_client(planner: httpx.Client, service: Service) -> None:
    found = plan(planner, HOPELESS, seconds=1.0, check=True)
    assert (found["routes"], found["error"]) == ([], None)
    assert set(found["missing"]) <= set(found["attempt"]["leaves"])
    with planner.stream("POST", "/v1/plan", json={"smiles": HOPELESS, "seconds": 50.0}) as lines:
        for line in lines.iter_lines():
            if json.loads(line)["expansions"]:
                break
        assert planner.get("/healthz").status_code == 200
    found = plan(planner, AMIDE, routes=1, seconds=50.0)  # which would wait for it
    assert len(found["routes"]) == 1
    assert service.workers["retro"].unanswered_count == 0


def test_a_server_without_stock_does_not_plan(client: httpx.Client) -> None:
    assert client.post("/v1/stock", json={"smiles": ["CCO"]}).status_code == 404
    listing = client.get("/v1/models").json()
    assert (listing["stock"], listing["match"], listing["plans"]) == (None, None, False)
    refused = client.post("/v1/plan", json={"smiles": "CCO"})
    assert refused.status_code == 404
    assert client.post("/v1/plan", json={"smiles": "CCO", "seconds": 0.0}).status_code == 422
