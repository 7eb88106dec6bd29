from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import httpx
import pytest


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
