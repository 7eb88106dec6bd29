"""`/v1/stock`: which molecules are for sale."""

from typing import Any

import httpx
import pytest

from molspec.planners.stock import Stock
from molspec.server.limits import Limits
from molspec.server.service import Service
from tests.server.serving import serving


def test_offers_have_the_names_and_prices_of_the_stock() -> None:
    stock = Stock(["CCO"])
    stock.add("Nc1ccccc1", "aniline", "3 EUR/g", "Cl.Nc1ccccc1")
    with serving(Service({}, Limits(), stock)) as url:
        asked = {"smiles": ["OCC", "c1ccccc1N", "CC", "C("]}
        answer = httpx.post(f"{url}/v1/stock", json=asked).json()
    ethanol = {"name": "", "price": "", "bought": ""}
    aniline = {"name": "aniline", "price": "3 EUR/g", "bought": "Cl.Nc1ccccc1"}
    assert answer == {"offers": [ethanol, aniline, None, None]}


@pytest.mark.parametrize("smiles", [[], ["C"] * 21, ["C" * 1001], "CCO", [1]])
def test_wrong_molecules_are_refused(smiles: Any) -> None:
    with serving(Service({}, Limits(queries=20), Stock(["C"]))) as url:
        refused = httpx.post(f"{url}/v1/stock", json={"smiles": smiles})
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["loc"][:2] == ["body", "smiles"]
