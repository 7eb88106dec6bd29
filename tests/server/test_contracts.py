"""Requests with the paths and bodies of other tools' clients."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from molspec.server.limits import Limits
from molspec.server.service import Service
from molspec.text import canonicalise, other_spellings
from tests.server.serving import SHORT, service, serving


def expected(served: Service, name: str, query: str, n_best: int) -> tuple[list[str], list[float]]:
    (result,) = served.workers[name].model.predict([query], n_best=n_best)
    answers = [prediction for prediction in result.predictions if prediction.finished]
    return [answer.smiles for answer in answers], [answer.log_prob for answer in answers]


@pytest.mark.parametrize(
    ("params", "model", "n_best"),
    [
        ({"n_beams": 4}, "retro", 4),  # of AiZynthFinder's ChemformerBasedExpansionStrategy
        ({"n_predictions": 3, "model": "other"}, "other", 3),  # of newer clients
        ({}, "retro", 10),
    ],
)
def test_chemformer_answers_its_clients(
    client: httpx.Client, served: Service, params: dict[str, Any], model: str, n_best: int
) -> None:
    smiles = ["CCO", "C(", "CC(=O)O"]
    items = client.post("/chemformer-api/predict", json=smiles, params=params).json()
    assert [item["input"] for item in items] == smiles
    for item in (items[0], items[2]):
        assert (item["output"], item["lhs"]) == expected(served, model, item["input"], n_best)
    # AiZynthFinder computes a softmax of these sums of log-probs.
    assert all(0 < math.exp(value) < 1 for value in items[0]["lhs"])
    assert (items[1]["output"], items[1]["lhs"]) == ([], [])
    assert items[1]["error"].startswith("not a molecule to RDKit")


def test_chemformer_computes_likelihoods(client: httpx.Client, served: Service) -> None:
    body = {"reactants": ["CCN", "CC("], "products": ["CCO", "CCO"]}
    model = served.workers["retro"].model
    items = client.post("/chemformer-api/log_likelihood", json=body).json()
    (result,) = model.log_probs(["CCO"], ["CCN"])
    assert items[0] == {
        "product_smiles": "CCO",
        "reactant_smiles": "CCN",
        "log_likelihood": result.predictions[0].log_prob,
    }
    compound = "/chemformer-api/compound_log_likelihood?n_augments=3"
    (best, bad) = client.post(compound, json={**body, "reactants": ["CCN", "[U]"]}).json()
    spellings = [*dict.fromkeys(["CCN", str(canonicalise("CCN")), *other_spellings("CCN", 3)])][:3]
    scored = model.log_probs(["CCO"] * 3, spellings)
    assert len(set(spellings)) == 3
    assert best["log_likelihood"] == max(entry.predictions[0].log_prob for entry in scored)
    assert bad["log_likelihood"] is None
    assert "[U]" in bad["error"]


def test_a_forward_model_scores_the_products(client: httpx.Client, served: Service) -> None:
    model = served.workers["other"].model
    model.task = "product"
    try:
        body = {"reactants": ["CCO"], "products": ["CCN"]}
        (item,) = client.post("/chemformer-api/log_likelihood?model=other", json=body).json()
    finally:
        model.task = None
    (result,) = model.log_probs(["CCO"], ["CCN"])
    assert item["log_likelihood"] == result.predictions[0].log_prob


def test_askcos_wrapper_requests_are_answered(client: httpx.Client, served: Service) -> None:
    body = {"model_name": "other", "smiles": ["CCO", "C("]}
    answered, refused = client.post("/predictions/other", json=body).json()
    assert (answered["products"], answered["scores"]) == expected(served, "other", "CCO", 10)
    assert (refused["products"], refused["scores"]) == ([], [])


def test_salts_are_decoded_as_their_main_component(client: httpx.Client, served: Service) -> None:
    salt, plain = client.post("/chemformer-api/predict", json=["CCO.[Na+]", "CCO"]).json()
    assert (salt["output"], salt["lhs"]) == expected(served, "retro", "CCO", 10)
    assert (salt["input"], salt["note"]) == ("CCO.[Na+]", "decoded as CCO, without [Na+]")
    assert "note" not in plain


ASKCOS, SINGLE = {"model_name": "retro"}, {"reactants": ["C"], "products": ["C"]}
MANY = {"reactants": ["C"] * 21, "products": ["C"] * 21}
#: By the path behind /chemformer-api/, or that of ASKCOS: bodies, the status, a part of the error.
WRONG = [
    ("/predictions/gone", {**ASKCOS, "smiles": ["C"]}, 404, "model is 'gone'"),
    ("/predictions/retro", ASKCOS, 422, "smiles"),
    ("/predictions/retro", {**ASKCOS, "smiles": ["\ud800"]}, 422, "surrogate"),
    ("/predictions/retro?n_best=11", {**ASKCOS, "smiles": ["C"]}, 422, "n_best is 11"),
    ("/predictions/retro", {**ASKCOS, "smiles": ["C"] * 21}, 422, '"msg": "smiles has 21 items'),
    ("predict?n_beams=x", ["C"], 422, "n_beams"),
    ("predict?model=gone", ["C"], 404, "model is 'gone'"),
    ("predict", {"smiles": ["C"]}, 422, "list"),
    ("predict", [], 422, "at least 1"),
    ("predict", ["C"] * 21, 422, '"smiles_list has 21 items'),
    ("predict?n_beams=0", ["C"], 422, '"n_beams is 0: expected'),
    ("log_likelihood", {**SINGLE, "products": ["C", "N"]}, 422, "products has 2 items: expected 1"),
    ("compound_log_likelihood?n_augments=99", SINGLE, 422, "n_augments is 99: expected 1 to 4"),
    # 21 queries are too many; 4 x 19 spellings would fit
    ("compound_log_likelihood?n_augments=4", MANY, 422, "products has 21 items"),
]


@pytest.mark.parametrize(("path", "body", "status", "told"), WRONG)
def test_invalid_requests_are_refused(
    client: httpx.Client, path: str, body: Any, status: int, told: str
) -> None:
    headers = {"Content-Type": "application/json"}
    full = path if path.startswith("/") else f"/chemformer-api/{path}"
    response = client.post(full, content=json.dumps(body), headers=headers)
    assert response.status_code == status
    assert told in json.dumps(response.json()["detail"])


def test_spellings_leave_room_for_other_requests() -> None:
    """200 spellings count as at most the number of queries that a request may have."""
    limits = Limits(queries=20, augmentations=20, waiting=21)
    targets = ["CCCCCCO", "CCCCCCN"] * 10
    query = {"model": "retro", "queries": ["C"], **SHORT}
    with serving(service(limits)) as url, ThreadPoolExecutor(1) as pool:
        path = f"{url}/chemformer-api/compound_log_likelihood?n_augments=10"
        body = {"reactants": targets, "products": targets}
        slow_request = pool.submit(httpx.post, path, json=body, timeout=60)
        statuses = []
        while not slow_request.done():
            response = httpx.post(f"{url}/v1/predict", json=query)
            statuses.append(response.status_code)
        answers = slow_request.result().json()
    assert set(statuses) == {200}
    assert len(answers) == 20
    assert all(answer["log_likelihood"] < 0 for answer in answers)
