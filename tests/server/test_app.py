import asyncio
import base64
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI, Response

import molspec.server
from molspec.prediction.options import PredictOptions
from molspec.server import connections, guards, service
from molspec.server.app import make_app
from molspec.server.limits import Limits
from tests import refused
from tests.server.serving import metric_values, running, serving, stripped

_PAGE = Path(molspec.server.__file__).with_name("page")
_LICENSE = "openchemlib-LICENSE.txt"
KEYS = ("first key", "second")
_BODY = b"POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"
_POST = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1"


def connected(url: str) -> socket.socket:
    address = urlsplit(url)
    return socket.create_connection((address.hostname or "", address.port or 0), timeout=60)


def test_health(client: httpx.Client) -> None:
    for headers in ({}, {"Host": "["}):  # no host is listed: any is answered
        assert client.get("/healthz", headers=headers).json() == {"status": "ok"}
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"models": {"retro": True, "other": True}})


def test_a_server_with_a_stopped_or_stuck_worker_is_not_ready(
    client: httpx.Client, served: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = served.workers["other"]
    for stuck, name, value, model in (
        (other, "_stopping", True, "other"),
        (other, "_began", 0.0, "other"),
        (served, "_since", 0.0, "retro"),  # its text work
    ):
        monkeypatch.setattr(stuck, name, value)
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["models"][model]) == (503, False)
        if name == "_began":
            assert ready.json()["models"] == {"retro": True, "other": False}
        if name == "_stopping":
            refused = client.post("/v1/predict", json={"model": "other", "queries": ["C"]})
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        monkeypatch.undo()


def test_every_query_is_counted_by_its_outcome(client: httpx.Client) -> None:
    before = metric_values(client)
    body = {"model": "retro", "queries": ["CCO", "C("], "max_length": 5}
    assert client.post("/v1/predict", json=body).status_code == 200
    after = metric_values(client)

    def increase(name: str) -> float:
        return after[name] - before.get(name, 0.0)

    queries = 'molspec_queries_total{{model="retro",outcome="{}"}}'
    for outcome, count in {"accepted": 2, "answered": 1, "refused": 1, "withdrawn": 0}.items():
        assert increase(queries.format(outcome)) == count
    assert increase('molspec_request_seconds_count{path="/v1/predict",status="200"}') == 1
    assert client.get("/no/such").status_code == 404
    assert not any("/no/such" in name for name in metric_values(client))


def test_only_listed_hosts_are_answered(guarded: str) -> None:
    others = ["elsewhere.example", "localhost.example:80", "[::2]:80", "[", "[a]"]
    for host in (*others, ""):
        answer = httpx.get(f"{guarded}/v1/models", headers={"Host": host})
        assert answer.status_code == 400
        assert "expected one of localhost, [::1]; --allowed-host" in answer.json()["detail"]
    for host in ("localhost", "LOCALHOST:8000", "[::1]:80", "[::1]"):
        assert httpx.get(f"{guarded}/v1/models", headers={"Host": host}).status_code == 200
    for probe in ("/healthz", "/readyz"):  # a container's runtime calls them by its address
        assert httpx.get(guarded + probe, headers={"Host": "10.0.0.7:8000"}).status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/models", "/", "/page/page.js"])
def test_head_has_the_headers_of_get(path: str, client: httpx.Client) -> None:
    head, get = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(get.content))
    assert get.content


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """A server that checks host names."""
    with serving(service.Service({}, Limits()), hosts=("Localhost", "[::1]")) as url:
        yield url


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n", b""),
        (_BODY, b"HTTP/1.1 408 Request Timeout\r\n"),
    ],
)
def test_an_incomplete_request_is_closed(
    url: str, monkeypatch: pytest.MonkeyPatch, sent: bytes, answer: bytes
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(guards, "REQUEST_SECONDS", 0.2)
    with connected(url) as client:
        client.sendall(sent)
        received = b"".join(iter(lambda: client.recv(4096), b""))
    assert received.startswith(answer)
    assert bool(received) == bool(answer)


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n", b"a: b\r\n" * 10_000),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\na: ", b"b" * 60_000),
        (b"GET /", b"b" * 60_000),
        (_POST + b"\r\n{\r\n0\r\n", b"a: b\r\n" * 10_000),
        (_POST + b";a=", b"b" * 60_000),
    ],
    ids=["headers", "header", "address", "trailers", "extension"],
)
def test_a_head_without_end_is_refused(guarded: str, begin: bytes, part: bytes) -> None:
    """Before its host and key are checked: the parser stores it."""
    with connected(guarded) as client:
        client.sendall(begin)
        sent = 0
        with suppress(ConnectionError):
            while sent < 50_000_000:
                client.sendall(part)
                sent += len(part)
        assert sent < 50_000_000  # the connection was closed
        with suppress(ConnectionError):
            assert client.recv(100).startswith(b"HTTP/1.1 431 ")


def test_a_request_of_many_small_parts_is_read(client: httpx.Client) -> None:
    body = b'{"model": "retro", "queries": ["C"], "max_length": 5}'
    pieces = (body[i : i + 1] for i in range(len(body)))
    headers = {"content-type": "application/json", **{f"a{i}": "b" * 500 for i in range(100)}}
    for _ in range(2):
        assert client.post("/v1/predict", content=pieces, headers=headers).status_code == 200
        pieces = iter([b" " * 9_000, body])


def test_a_second_host_is_refused(guarded: str) -> None:
    with connected(guarded) as client:
        client.sendall(b"GET /v1/models HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n")
        refused = client.recv(1000)
    assert refused.startswith(b"HTTP/1.1 400 ")
    assert b"2 Host headers: expected one" in refused


def test_a_client_that_does_not_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)
    app, size = FastAPI(), 64 << 20
    app.get("/")(lambda: Response(b" " * size))
    with running(app) as url:
        with connected(url) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            time.sleep(1)
            received = 0
            with suppress(ConnectionResetError):
                while part := client.recv(1 << 20):
                    received += len(part)
            assert received < size
        monkeypatch.setattr(connections, "REQUEST_SECONDS", 30)
        assert len(httpx.get(url).content) == size


def test_requests_need_a_key_if_keys_are_set() -> None:
    basic = "Basic " + base64.b64encode(b"anybody:second").decode()
    by_bearer, by_basic, by_name = (
        [{name: value} for value in values]
        for name, values in (
            ("Authorization", ("Bearer first key", "Bearer")),
            ("Authorization", (basic, "Basic ???")),
            ("X-API-Key", ("second", "third", "")),
        )
    )
    with serving(service.Service({}, Limits()), KEYS) as url, httpx.Client(base_url=url) as client:
        for path in ("/healthz", "/readyz", "/", "/page/page.js"):
            assert client.get(path).status_code == 200
        for right, *wrong in (by_bearer, by_basic, by_name):
            assert client.get("/v1/models", headers=right).status_code == 200
            for headers in ({}, *wrong):
                for path in ("/v1/models", "/metrics", "/openapi.json"):
                    refused = client.get(path, headers=headers)
                    assert refused.status_code == 401
                    assert "a key is needed" in refused.json()["detail"]
        metrics = client.get("/metrics", headers=by_name[0]).text
        assert 'molspec_request_seconds_count{path="/openapi.json",status="401"}' in metrics


def test_pages_of_allowed_origins_may_call() -> None:
    page = {"Origin": "https://lims.example.org"}
    asked = {
        **page,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    allowed = "access-control-allow-origin"
    with serving(service.Service({}, Limits()), KEYS, origins=(page["Origin"],)) as url:
        preflight = httpx.options(f"{url}/v1/predict", headers=asked)
        assert (preflight.status_code, preflight.headers[allowed]) == (200, page["Origin"])
        refused = httpx.get(f"{url}/v1/models", headers=page)
        assert (refused.status_code, refused.headers[allowed]) == (401, page["Origin"])
        other = {**asked, "Origin": "https://other.example.org"}
        assert allowed not in httpx.options(f"{url}/v1/predict", headers=other).headers
        assert allowed not in httpx.get(f"{url}/healthz", headers=other).headers
    with serving(service.Service({}, Limits())) as url:
        assert allowed not in httpx.options(f"{url}/v1/predict", headers=asked).headers
        assert allowed not in httpx.get(f"{url}/healthz", headers=page).headers


def test_the_page_works_behind_a_proxy_that_strips_a_prefix(served: service.Service) -> None:
    app, prefix = make_app(served), "/user/x/proxy/8000"
    served_files = {each.name for each in _PAGE.iterdir()} - {"index.html", _LICENSE}

    async def status(client: httpx.AsyncClient, url: httpx.URL) -> int:
        return (await client.get(url)).status_code

    async def check() -> None:
        transport = httpx.ASGITransport(app=stripped(app, prefix))
        async with httpx.AsyncClient(transport=transport, base_url="http://any") as client:
            assert await status(client, httpx.URL("/page/page.js")) == 404
            page = await client.get(f"{prefix}/")
            parts = [page.url.join(each) for each in re.findall('(?:src|href)="(.+?)"', page.text)]
            calls: set[str] = set()
            for part in parts:  # which grow by what they import
                answer = await client.get(part)
                assert answer.status_code == 200, part
                if part.path.endswith(".js") and "openchemlib" not in part.path:
                    named = re.findall(r'(?:from |import\(|URL\()"(.+?)"', answer.text)
                    parts += {part.join(each) for each in named} - {*parts}
                    calls |= {*re.findall(r'(?:call|request)\("(.+?)"', answer.text)}
            assert {part.path.rpartition("/")[2] for part in parts} == served_files
            found = {each: await status(client, page.url.join(each)) for each in calls}
            assert found.pop("v1/models") == 200
            assert set(found.values()) == {405}  # they are posted to
            assert len(found) == 5

    asyncio.run(check())


def test_the_page_loads_nothing_from_other_servers(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    for part in _PAGE.iterdir():
        response = client.get(f"/page/{part.name}")
        assert response.status_code == 200
        assert response.content == part.read_bytes()
    ours = [part for part in _PAGE.iterdir() if "openchemlib" not in part.name]
    for part in ours:
        assert "://" not in part.read_text().replace("http://www.w3.org/2000/svg", ""), part
    outside = client.base_url.copy_with(raw_path=b"/page/../app.py")  # httpx would resolve the ".."
    assert client.get(outside).status_code == 404


def test_openapi_describes_the_api(client: httpx.Client) -> None:
    schema = client.get("/openapi.json").json()
    body = schema["components"]["schemas"]["PredictBody"]["properties"]
    assert {"queries", "n_best", "beam", "drafter", "augmentations", "stream"} <= set(body)
    assert {"422", "429", "413"} <= set(schema["paths"]["/v1/predict"]["post"]["responses"])
    chemformer = {"predict", "log_likelihood", "compound_log_likelihood"}
    paths = {f"/v1/{name}" for name in ("score", "models", "stock")} | {"/predictions/{model_name}"}
    assert paths | {f"/chemformer-api/{name}" for name in chemformer} <= set(schema["paths"])


def test_a_low_limit_of_drafts_is_only_for_requests_that_name_them() -> None:
    refused("waiting is 9", Limits, waiting=9)  # below queries
    limits = Limits(queries=9, waiting=9, drafted=100)
    limits.check(PredictOptions())
    told = "draft_count is 23: expected at most 10 on this server"
    refused(told, limits.check, PredictOptions(drafter="windows"))
