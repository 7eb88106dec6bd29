import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from threading import Event
from typing import Any

import httpx
import pytest

import molspec
from molspec import PredictOptions
from molspec.files import FORMATS, OutputContext, Query, predict
from molspec.planners.stock import Stock
from molspec.prediction.results import ALL_DROPPED
from molspec.server import chemformer, limits, service as service_module
from molspec.server.service import Service
from tests import tiny, waiting
from tests.server.serving import metric_values, service, serving

SHORT = {"max_length": 12}
QUERIES = ["CCO", "C(", "CC(=O)O", "CO.[Na+]", "", "CCOC"]
JSON = {"Content-Type": "application/json"}
WINDOWS, CANONICAL = {"drafter": "windows"}, {"canonical_queries": True}
SBS = {"beam": "sbs", "n_best": 2, "draft_length": 100}
WIDENED = {"n_best": 4, "drop_invalid": True, "max_beam_factor": 4}
LONG = {"model": "retro", "queries": ["C" * 60] * 20, "n_best": 10, "max_length": 200}
WITHDRAWN = 'molspec_queries_total{model="retro",outcome="withdrawn"}'


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/predict", {"model": "retro", "queries": [0] * 5000}),
        ("/v1/predict", {f"a{i}": 0 for i in range(1000)}),
        ("/v1/score", {"model": "retro", "queries": ["C"], "targets": [0] * 5000}),
        ("/chemformer-api/predict", [0] * 5000),
        ("/predictions/retro", {"model_name": "retro", "smiles": [0] * 5000}),
    ],
)
def test_a_request_with_many_errors_is_told_few(client: httpx.Client, path: str, body: Any) -> None:
    refused = client.post(path, json=body)
    assert refused.status_code == 422
    assert 1 <= len(refused.json()["detail"]) <= 20


def lines(served: Service, name: str, queries: list[str], **options: Any) -> list[dict[str, Any]]:
    """The results that `molspec predict -f jsonl` writes."""
    model = served.workers[name].model
    stream = StringIO()
    raw = options.pop("raw", False)
    predict_options = PredictOptions(**options)
    if not raw:
        predict_options = predict_options.distinct().within(served.limits.beam_size)
    for answer in predict(model, map(Query, queries), predict_options):
        stream.write(FORMATS["jsonl"].render(answer, OutputContext(name, model.task)))
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_best": 3, "raw": True},
        {"n_best": 2, "beam_size": 4, "finished": "separate", "length_penalty": 0.5},
        {"canonical_queries": True, "augmentations": 3, "augment_below": 0.1, "n_best": 2},
        {"n_best": 3, "drop_invalid": True, "drop_unchanged": True, "max_beam_factor": 2},
        {"samples": 5, "temperature": 0.8, "top_k": 9, "top_p": 0.9, "seed": 2**64 - 1},
        {"verification": "relaxed", "beta": 9, "tau": 9.0, "drafter": "windows"},
    ],
)
def test_results_equal_those_of_the_command_line(
    client: httpx.Client, served: Service, options: dict[str, Any]
) -> None:
    options = {**SHORT, **options}
    body = {"model": "retro", "queries": QUERIES, **options}
    response = client.post("/v1/predict", json=body)
    assert response.status_code == 200
    assert response.json()["results"] == lines(served, "retro", QUERIES, **options)


@pytest.mark.parametrize("changes", [{}, {"n_best": 10}, {"n_best": 3, "raw": True}])
def test_options_of_a_request_are_checked_once(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    checked = []
    check = PredictOptions.__post_init__

    def counted(options: PredictOptions) -> None:
        checked.append(options)
        check(options)

    monkeypatch.setattr(PredictOptions, "__post_init__", counted)
    body = {"model": "retro", "queries": ["CCO", "CC.O"], **SHORT, **changes}
    assert client.post("/v1/predict", json=body).status_code == 200
    assert len(checked) == 1


def test_streamed_lines_name_their_queries(client: httpx.Client, served: Service) -> None:
    body = {"model": "other", "queries": QUERIES, "stream": True, **SHORT}
    with client.stream("POST", "/v1/predict", json=body) as response:
        assert response.headers["content-type"].startswith("application/x-ndjson")
        results = [json.loads(line) for line in response.iter_lines()]
    expected = lines(served, "other", QUERIES, **SHORT)
    assert sorted(results, key=lambda result: int(result["id"])) == expected
    assert results[0]["error"] is not None  # refused before the first step


def test_queries_are_prepared_as_by_the_command(client: httpx.Client, served: Service) -> None:
    expected = lines(served, "retro", ["CCO"], **SHORT)[0]["predictions"]
    asked = ["CCO.[Na+]", "[2H]CCO", "CC(=O)Cl.CN", "C[C@H](O)CC |&1:1|"]
    body = {"model": "retro", "queries": asked, **SHORT}
    salt, labelled, mixture, racemate = client.post("/v1/predict", json=body).json()["results"]
    assert racemate["note"] == "decoded as CCC(C)O, which stands for the racemate"
    assert (salt["note"], salt["predictions"]) == ("decoded as CCO, without [Na+]", expected)
    assert "[2H]" in labelled["error"]
    assert "2 molecules that are not a salt" in mixture["error"]
    body |= {"keep_salts": True, "deuterium_as_hydrogen": True}
    salt, labelled, *_ = client.post("/v1/predict", json=body).json()["results"]
    assert "[Na+]" in salt["error"]
    assert labelled["note"] == "decoded as CCO, with hydrogen for deuterium"
    assert labelled["predictions"] == expected
    (plain,) = client.post("/v1/predict", json={"model": "other", "queries": ["CCO.[Na+]"]}).json()[
        "results"
    ]
    assert plain["note"] is None  # a model without a task


def test_a_field_with_a_typo_is_named(client: httpx.Client) -> None:
    body = {"model": "retro", "queries": ["CCO"], "nbest": 2, "unlike": 1}
    typo, other = client.post("/v1/predict", json=body).json()["detail"]
    assert (typo["loc"], typo["msg"]) == (["body", "nbest"], "no such field: did you mean n_best?")
    (unlike,) = client.post("/v1/plan", json={"smiles": "CCO", "nbest": 2}).json()["detail"]
    assert other["msg"] == unlike["msg"] == "Extra inputs are not permitted"


def test_targets_are_scored(
    client: httpx.Client, served: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of aligned text scores molecules, for Chemformer's clients too."""
    model = served.workers["retro"].model
    plain, molecule = (
        model.log_probs(["CCO"], ["CCN"], aligned=each)[0].predictions[0].log_prob
        for each in (False, True)
    )
    assert plain != molecule
    body = {"model": "retro", "queries": ["CCO", "CCO"], "targets": ["CCN", "["]}
    for own, given in ((False, None), (False, True), (True, False), (True, None)):
        monkeypatch.setattr(model, "aligned", own)
        good, bad = client.post("/v1/score", json={**body, "aligned": given}).json()["results"]
        is_aligned = own if given is None else given
        assert good["predictions"][0]["log_prob"] == (molecule if is_aligned else plain)
        assert bad["error"].startswith("target: ")
    for path in ("log_likelihood", "compound_log_likelihood?n_augments=3"):
        pair = {"reactants": ["CCN"], "products": ["CCO"]}
        (item,) = client.post(f"/chemformer-api/{path}", json=pair).json()
        assert item["log_likelihood"] == molecule
    response = client.post("/v1/score", json={**body, "targets": []})  # one for each query
    assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["body", "targets"])


#: By the field that its error names: other values, and a part of the message.
WRONG = {
    "model": [("r\u00e9tro", "retro, other"), ("\ud800", "retro, other"), (None, "not given")],
    "queries": [([], "at least 1"), ("CCO", "'CCO'"), (["C"] * 21, "at most 20")],
    "n_best": [(11, "at most 10"), ("2", "integer"), (None, "integer, it is null")],
    "beam_size": [(13, "at most 12")],
    "node_budget": [(1001, "at most 1000")],
    "samples": [(11, "at most 10")],
    "seed": [(0.5, "integer")],
    "target_prefix": [(5, "string"), ("junk", "not SMILES")],
    "seconds": [(0, "greater than 0")],
    "drafter": [("wind", "'windows'"), ("heads", "no draft heads")],
    "max_length": [(9999, "9999")],
    "nbest": [(3, "did you mean n_best?")],
}
#: With other fields.
WRONG_BESIDE = [
    (WINDOWS | {"draft_count": 101}, "draft_count", "at most 100"),
    (WINDOWS | {"draft_length": 1001}, "draft_length", "at most 1000"),
    (SBS | {"draft_count": 11}, "draft_count", "at most 10"),
    (CANONICAL | {"augmentations": 5}, "augmentations", "at most 4"),
    ({"min_length": 300, "stream": True}, "min_length", "300"),
    (WIDENED, "max_beam_factor", "at most 3 with a beam of 4"),
]


@pytest.mark.parametrize(
    ("wrong", "field", "message"),
    [({name: value}, name, told) for name, rows in WRONG.items() for value, told in rows]
    + WRONG_BESIDE,
)
def test_an_invalid_request_names_the_field(
    client: httpx.Client, wrong: dict[str, Any], field: str, message: str
) -> None:
    body = json.dumps({"model": "retro", "queries": ["CCO"], **wrong})
    response = client.post("/v1/predict", content=body, headers=JSON)
    assert response.status_code == 422
    (detail,) = response.json()["detail"]
    assert detail["loc"][:2] == ["body", field]
    assert message in detail["msg"]


TWICE = b'{"model": "retro", "queries": ["C"], "queries": ["N"]}'


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'"C"', b"[" * 5000, b"\xff\xfe", TWICE])
def test_a_body_that_is_no_object_of_json_is_refused(client: httpx.Client, content: bytes) -> None:
    response = client.post("/v1/predict", content=content, headers=JSON)
    assert response.status_code in (400, 422)
    assert response.json()["detail"]
    for headers in ({}, {"Content-Type": "text/plain"}):
        response = client.post("/v1/predict", content=content or b"{}", headers=headers)
        assert response.status_code == 415
        assert response.json()["detail"].endswith(": expected application/json")


@pytest.mark.parametrize("chunked", [False, True])
def test_an_offered_protocol_is_ignored_and_a_compressed_body_refused(
    client: httpx.Client, chunked: bool
) -> None:
    body = json.dumps({"model": "retro", "queries": ["CCO"], **SHORT}).encode()
    expected = client.post("/v1/predict", content=body, headers=JSON).json()
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", **JSON}
    for _ in range(2):  # on one connection
        content = iter([body[:9], body[9:]]) if chunked else body
        assert client.post("/v1/predict", content=content, headers=offer).json() == expected
    refused = client.post("/v1/predict", content=body, headers={"Content-Encoding": "gzip", **JSON})
    assert (refused.status_code, refused.headers["Accept-Encoding"]) == (415, "identity")
    assert "Content-Encoding is 'gzip'" in refused.text


def test_a_beam_widens_up_to_the_limit_of_the_server(client: httpx.Client) -> None:
    """The default factor is 4, but 8 * 4 hypotheses are beyond the limit."""
    body = {"model": "retro", "queries": ["CCO"], "n_best": 8, "drop_unchanged": True, **SHORT}
    (result,) = client.post("/v1/predict", json=body).json()["results"]
    assert result["error"] in (None, ALL_DROPPED)
    for drops in (True, False):
        more = {"drop_unchanged": drops, "max_beam_factor": 4}
        response = client.post("/v1/predict", json={**body, **more})
        assert response.status_code == 422
        assert "max_beam_factor is 4: expected at most " in response.text


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused(client: httpx.Client, chunked: bool) -> None:
    content = b" " * 30_000
    response = client.post("/v1/predict", content=iter([content]) if chunked else content)
    assert response.status_code == 413
    assert response.json()["detail"] == "the body is too large: expected at most 20000 bytes"


def test_a_full_queue_refuses_a_request_with_retry_after(
    client: httpx.Client, served: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.workers["retro"], "_most_waiting", 0)  # as if it were full
    refused = client.post("/v1/predict", json={"model": "retro", "queries": ["C"]})
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert "too many queries are waiting" in refused.json()["detail"]


def test_a_disconnected_client_frees_its_rows(
    client: httpx.Client, url: str, served: Service
) -> None:
    worker, before = served.workers["retro"], metric_values(client)[WITHDRAWN]
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/v1/predict", json=LONG, timeout=httpx.Timeout(60, read=0.05))
    waiting.until(lambda: not worker.unanswered_count)
    with httpx.Client(base_url=url, timeout=60) as leaving:
        with leaving.stream("POST", "/v1/predict", json={**LONG, "stream": True}) as response:
            assert next(response.iter_lines())
        leaving.close()
        waiting.until(lambda: not worker.unanswered_count)
    assert metric_values(client)[WITHDRAWN] > before


def test_unanswered_queries_report_the_time_limit(client: httpx.Client) -> None:
    results = client.post("/v1/predict", json={**LONG, "seconds": 0.05}).json()["results"]
    assert results[-1]["error"] == "not answered within 0.05 s"


#: Work of RDKit's by its module and name, a request that needs it, and its arguments, of which some
#: are others after the time limit.
WORK: list[tuple[Any, str, str, Any, list[Any]]] = [
    (service_module, "prepare_query", "v1/predict", {"queries": ["CN.Cl"]}, [True]),
    (
        chemformer,
        "_spellings",
        "chemformer-api/compound_log_likelihood?n_augments=2",
        {"reactants": ["C", "N"], "products": ["C", "N"]},
        [2, 1],
    ),
]


@pytest.mark.parametrize(("module", "name", "path", "body", "given"), WORK)
def test_rdkit_work_does_not_block_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, path: str, body: Any, given: list[Any]
) -> None:
    """Threads do it; their time counts towards the time limit."""
    has_begun, may_continue = Event(), Event()
    work, seen = getattr(module, name), []

    def slowly(item: Any, second: Any, *others: Any) -> Any:
        seen.append(second)
        has_begun.set()
        assert may_continue.wait(60)
        return work(item, second, *others)

    monkeypatch.setattr(module, name, slowly)
    body = {"model": "retro", **body} if path.startswith("v1") else body
    with ThreadPoolExecutor(1) as pool, serving(service(limits.Limits(seconds=1))) as url:
        slow_request = pool.submit(httpx.post, f"{url}/{path}", json=body, timeout=60)
        assert has_begun.wait(60)
        assert httpx.get(f"{url}/healthz", timeout=10).status_code == 200
        time.sleep(1.1)
        may_continue.set()
        answer = slow_request.result().json()
    assert seen == given
    results = answer["results"] if path.startswith("v1") else answer
    assert [each["error"] for each in results] == ["not answered within 1 s"] * len(given)


def test_the_event_loop_runs_between_two_pieces() -> None:
    """If pieces queued in the thread, the event loop could not run between them."""
    service = Service({}, limits.Limits())

    def queue_size(_: int) -> int:
        time.sleep(0.001)
        return service.texts._work_queue.qsize()

    async def run_pieces() -> list[list[int]]:
        return await asyncio.gather(*(service.in_pieces(queue_size, [0, 1]) for _ in range(9)))

    assert asyncio.run(run_pieces()) == [[0, 0]] * 9


def test_the_models_of_the_server_are_listed(client: httpx.Client) -> None:
    listing = client.get("/v1/models").json()
    found = [(model["name"], model["task"]) for model in listing["models"]]
    assert found == [("retro", "retro"), ("other", None)]
    assert listing["version"] == molspec.__version__
    for model, seed in zip(listing["models"], (1, 2), strict=True):
        assert model["fingerprint"] == tiny.checkpoint(seed).fingerprint()
        assert not model["aligned"]
    assert listing["limits"]["n_best"] == 10


def test_offers_have_the_names_and_prices_of_the_stock() -> None:
    stock = Stock(["CCO"])
    stock.add("Nc1ccccc1", "aniline", "3 EUR/g", "Cl.Nc1ccccc1")
    ethanol = {"name": "", "price": "", "bought": ""}
    aniline = {"name": "aniline", "price": "3 EUR/g", "bought": "Cl.Nc1ccccc1"}
    wrong: list[Any] = [[], ["C"] * 21, ["C" * 1001], "CCO", [1]]
    with serving(Service({}, limits.Limits(queries=20), stock)) as url:
        asked = {"smiles": ["OCC", "c1ccccc1N", "CC", "C("]}
        answer = httpx.post(f"{url}/v1/stock", json=asked).json()
        for smiles in wrong:
            refused = httpx.post(f"{url}/v1/stock", json={"smiles": smiles})
            assert refused.status_code == 422
            assert refused.json()["detail"][0]["loc"][:2] == ["body", "smiles"]
    assert answer == {"offers": [ethanol, aniline, None, None]}
