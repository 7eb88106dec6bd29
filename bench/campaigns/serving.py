"""Load a server as many users would, and compare every answer with `predict`'s, to the bit.

    python bench/campaigns/serving.py product=uspto_mit/test.tsv.xz retro=uspto50k/test.tsv.xz

The script starts a server with both models. Then it runs these parts in order:

single  one request after the other, in turns with the bare `predict` call: the time that the server
        adds, with a plain client on an open connection, and with httpx, which adds time itself
load    concurrent clients; of their requests a tenth each is malformed, cancelled or over a limit

Figures are printed as JSON, with the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import operator
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import httpx

import machine
import molspec
from molspec import evaluation

_LIMIT = 20
#: Repetitions of a query in every way; the least time counts, because other processes may run.
_ROUNDS = 6
_WIDTHS = {"product": (1, 3), "retro": (1, 5)}
#: Faults of requests that the server refuses.
_MALFORMED: tuple[dict[str, Any], ...] = (
    {"queries": "CCO"},
    {"n_best": "many"},
    {"model": "gone"},
    {"beam": "wide"},
    {"colour": "red"},
)
_OVER: tuple[dict[str, Any], ...] = (
    {"n_best": _LIMIT + 1},
    {"queries": ["C"] * (_LIMIT + 1)},
    {"beam_size": 1000},
)


@dataclass
class Server:
    """A server process."""

    process: subprocess.Popen[str]
    url: str
    seconds: float

    @classmethod
    def start(cls) -> Server:
        limits = f"--max-n-best {_LIMIT} --max-queries {_LIMIT}".split()
        command = (sys.executable, "-m", "molspec", "serve", "--port", "0", "--dtype", "float32")
        begin = perf_counter()
        process = subprocess.Popen((*command, *limits), stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        return cls(process, found[0], perf_counter() - begin)

    def bytes(self) -> int:
        """Resident memory of the process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.findall(r"VmRSS:\s+(\d+)", status)[0])

    def count(self, outcome: str) -> int:
        text = httpx.get(f"{self.url}/metrics", timeout=60).text
        found = re.findall(rf'molspec_queries_total{{.*outcome="{outcome}"}} (\S+)', text)
        return round(sum(map(float, found)))


@dataclass
class Tally:
    """The outcomes of requests: statuses, seconds, good answers to compare, and errors."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    good: list[tuple[dict[str, Any], list[Any]]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


Tables = dict[str, list[str]]


def good_body(draw: random.Random, tables: Tables) -> dict[str, Any]:
    model = draw.choice(sorted(tables))
    queries = draw.choices(tables[model], k=draw.choice((1, 1, 1, 2, 4)))
    return {"model": model, "queries": queries, "n_best": draw.choice(_WIDTHS[model])}


async def _request(
    client: httpx.AsyncClient, kind: str, draw: random.Random, tables: Tables, tally: Tally
) -> None:
    body = good_body(draw, tables)
    if kind == "cancelled":
        with suppress(httpx.ReadTimeout):
            timeout = httpx.Timeout(120, read=draw.random() * 0.05)
            await client.post("/v1/predict", json=body, timeout=timeout)
        tally.statuses["cancelled"] += 1
        return
    faults = {"malformed": _MALFORMED, "over": _OVER}.get(kind)
    sent = {**body, **draw.choice(faults)} if faults else body
    begin = perf_counter()
    while True:
        try:
            response = await client.post("/v1/predict", json=sent)
        except httpx.HTTPError as error:
            tally.lost.append(repr(error))
            return
        tally.statuses[f"{kind} {response.status_code}"] += 1
        if response.status_code != 429:
            break
        await asyncio.sleep(int(response.headers["retry-after"]))
    if faults:
        assert response.status_code == 422, response.text
        assert response.json()["detail"], response.text
        return
    tally.seconds.append(perf_counter() - begin)
    tally.good.append((body, response.json()["results"]))


_MIXED = ("malformed", "cancelled", "over", *["good"] * 7)


async def _load(url: str, tables: Tables, count: int, clients: int) -> Tally:
    tally, left = Tally(), iter(range(count))

    async def user() -> None:
        async with httpx.AsyncClient(base_url=url, timeout=600) as client:
            for number in left:
                draw = random.Random(number)
                await _request(client, _MIXED[number % len(_MIXED)], draw, tables, tally)

    await asyncio.gather(*(user() for _ in range(clients)))
    return tally


def _differences(models: dict[str, molspec.Model], tally: Tally) -> int:
    """The number of answers that differ from `predict`'s; each query is predicted once."""
    known: dict[tuple[str, str, int], list[tuple[str, float]]] = {}
    different = 0
    for body, results in tally.good:
        for query, result in zip(body["queries"], results, strict=True):
            key = body["model"], query, body["n_best"]
            if key not in known:
                (own,) = models[key[0]].predict([query], n_best=key[2])
                known[key] = [(each.smiles, each.log_prob) for each in own.predictions]
            found = [(each["smiles"], each["log_prob"]) for each in result["predictions"]]
            different += found != known[key]
    return different


def _latency(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50_ms": round(1e3 * median(ordered), 1),
        "p99_ms": round(1e3 * ordered[int(0.99 * (len(ordered) - 1))], 1),
    }


class PlainClient:
    """The cheapest client: one connection of the standard library, which stays open."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=600)

    def post(self, body: dict[str, Any]) -> bytes:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", "/v1/predict", json.dumps(body), headers)
        response = self._connection.getresponse()
        content = response.read()
        assert response.status == 200, content
        return content


def single(server: Server, models: dict[str, molspec.Model], tables: Tables, count: int) -> Any:
    """Time one query after the other, in every way in turns.

    The server's results have canonical SMILES, which a bare call computes only when they are read:
    `canonical` is a call that computes them, too. `plain` is the cheapest client, `httpx` the
    documented one.
    """
    figures = {}
    with httpx.Client(base_url=server.url, timeout=600) as client:
        plain = PlainClient(server.url)
        for name, model in models.items():
            ways = _ways(name, model, plain, client)
            rounds: dict[str, list[list[float]]] = {way: [] for way in ways}
            for _ in range(_ROUNDS):
                for way, send in ways.items():
                    send(tables[name][0])  # warms up
                    rounds[way].append([_seconds(send, query) for query in tables[name][:count]])
            least = {way: [min(each) for each in zip(*rounds[way], strict=True)] for way in ways}
            figures[name] = {
                way: {
                    "p50_ms": round(1e3 * median(taken), 2),
                    "over_bare_p50_ms": round(
                        1e3 * median(map(operator.sub, taken, least["bare"])), 2
                    ),
                }
                for way, taken in least.items()
            }
    return figures


def _seconds(send: Callable[[str], object], query: str) -> float:
    begin = perf_counter()
    send(query)
    return perf_counter() - begin


def _ways(
    name: str, model: molspec.Model, plain: PlainClient, client: httpx.Client
) -> dict[str, Callable[[str], object]]:
    def body(query: str) -> dict[str, Any]:
        return {"model": name, "queries": [query]}

    return {
        "bare": lambda query: model.predict([query]),
        "canonical": lambda query: [
            each.canonical for each in model.predict([query])[0].predictions
        ],
        "plain": lambda query: plain.post(body(query)),
        "httpx": lambda query: client.post("/v1/predict", json=body(query)).raise_for_status(),
    }


def load(
    server: Server, models: dict[str, molspec.Model], tables: Tables, flags: argparse.Namespace
) -> Any:
    """Run concurrent clients, then compare every good answer."""
    asyncio.run(_load(server.url, tables, min(500, flags.requests), flags.clients))  # warms up
    before, begin = server.bytes(), perf_counter()
    tally = asyncio.run(_load(server.url, tables, flags.requests, flags.clients))
    seconds = perf_counter() - begin
    counts = {name: server.count(name) for name in ("accepted", "answered", "refused", "withdrawn")}
    return {
        "requests": flags.requests,
        "clients": flags.clients,
        "statuses": dict(sorted(tally.statuses.items())),
        "lost": tally.lost,
        "queries": counts,
        "good": {**_latency(tally.seconds), "a_second": round(len(tally.seconds) / seconds, 1)},
        "memory_mb": [round(value / 1e6) for value in (before, server.bytes())],
        "answers_that_differ": _differences(models, tally),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tables", nargs=2, metavar="NAME=FILE", help="product and retro")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--singles", type=int, default=100, help="requests of single")
    parser.add_argument("--parts", nargs="+", default=["single", "load"])
    flags = parser.parse_args(arguments)
    named = dict(text.split("=", 1) for text in flags.tables)
    tables = {
        name: [row.query for row in islice(evaluation.PairTable(Path(file), task=name), 200)]
        for name, file in named.items()
    }
    models = {name: molspec.load(name, dtype="float32") for name in tables}
    server = Server.start()
    report: dict[str, Any] = {
        "machine": machine.describe(),
        "weights": {name: model.identity.weights[:8] for name, model in models.items()},
        "ready_s": round(server.seconds, 1),
    }
    try:
        parts: dict[str, Callable[[], object]] = {
            "single": lambda: single(server, models, tables, flags.singles),
            "load": lambda: load(server, models, tables, flags),
        }
        for part, measured in parts.items():
            if part in flags.parts:
                report[part] = measured()
                print(part, json.dumps(report[part]), flush=True)
    finally:
        server.process.kill()
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
