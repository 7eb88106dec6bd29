"""Load a server as many users would, and compare every answer with `predict`'s, to the bit.

    python bench/serving.py product=uspto_mit/test.tsv.xz retro=uspto50k/test.tsv.xz

A server is started with both models. Then, each part in its turn:

single  one request after the other, in turns with the bare `predict` call: what the server adds,
        by a plain client on a kept connection, and by httpx, which costs something itself
load    clients at once; of their requests a tenth each is malformed, cancelled or over a limit
beside  short requests alone, then beside long beams: how long they take
stop    SIGTERM under load: is all that was accepted answered? Then a new server, killed, and anew
peer    with --peer FOLDER: the same load without the bad requests, ours in int8 and CTranslate2's
        int8 behind the same server, in turns (peering/serving.py; FOLDER is kept for the next time)

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
import signal
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
#: A single query is asked so often in every way; the least counts, as others use the machine too.
_ROUNDS = 6
_WIDTHS = {"product": (1, 3), "retro": (1, 5)}
#: What is wrong with a request, and the status that says so.
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
    """The command as a process."""

    process: subprocess.Popen[str]
    url: str
    seconds: float

    @classmethod
    def start(cls, port: int = 0, *flags: str) -> Server:
        limits = f"--max-n-best {_LIMIT} --max-queries {_LIMIT}".split()
        return cls.run("-m", "molspec", "serve", "--port", str(port), *limits, *flags)

    @classmethod
    def run(cls, *arguments: str) -> Server:
        begin = perf_counter()
        process = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://\S+", said)
        assert found, said
        return cls(process, found[0], perf_counter() - begin)

    def bytes(self) -> int:
        """Memory that it has now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.findall(r"VmRSS:\s+(\d+)", status)[0])

    def count(self, outcome: str) -> int:
        text = httpx.get(f"{self.url}/metrics", timeout=60).text
        found = re.findall(rf'molspec_queries_total{{.*outcome="{outcome}"}} (\S+)', text)
        return round(sum(map(float, found)))


@dataclass
class Tally:
    """What became of requests: their seconds by what was asked, and good answers to compare."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    good: list[tuple[dict[str, Any], list[Any]]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


Tables = dict[str, list[str]]


def good_body(draw: random.Random, tables: Tables) -> dict[str, Any]:
    model = draw.choice(sorted(tables))
    queries = draw.choices(tables[model], k=draw.choice((1, 1, 1, 2, 4)))
    return {"model": model, "queries": queries, "n_best": draw.choice(_WIDTHS[model])}


async def _ask(
    client: httpx.AsyncClient, kind: str, draw: random.Random, tables: Tables, tally: Tally
) -> None:
    body = good_body(draw, tables)
    if kind == "cancelled":
        with suppress(httpx.ReadTimeout):
            timeout = httpx.Timeout(120, read=draw.random() * 0.05)
            await client.post("/v1/predict", json=body, timeout=timeout)
        tally.statuses["cancelled"] += 1
        return
    wrong = {"malformed": _MALFORMED, "over": _OVER}.get(kind)
    sent = {**body, **draw.choice(wrong)} if wrong else body
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
    if wrong:
        assert response.status_code == 422, response.text
        assert response.json()["detail"], response.text
        return
    tally.seconds.append(perf_counter() - begin)
    tally.good.append((body, response.json()["results"]))


_MIXED = ("malformed", "cancelled", "over", *["good"] * 7)


async def _load(
    url: str, tables: Tables, count: int, clients: int, kinds: Sequence[str] = _MIXED
) -> Tally:
    tally, left = Tally(), iter(range(count))

    async def user() -> None:
        async with httpx.AsyncClient(base_url=url, timeout=600) as client:
            for number in left:
                draw = random.Random(number)
                await _ask(client, kinds[number % len(kinds)], draw, tables, tally)

    await asyncio.gather(*(user() for _ in range(clients)))
    return tally


def _differences(models: dict[str, molspec.Model], tally: Tally) -> int:
    """Answers that are not `predict`'s to the bit; each query is predicted once."""
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


class KeptConnection:
    """The least that a client costs: one connection of the standard library, kept open."""

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
    """One query after the other, asked in every way in its turn.

    A result of the server has its answers' canonical SMILES, which the bare call finds where they
    are asked for: `canonical` is the call that has found as much. `plain` is a client that costs as
    little as one can, `httpx` the documented one.
    """
    told = {}
    with httpx.Client(base_url=server.url, timeout=600) as client:
        kept = KeptConnection(server.url)
        for name, model in models.items():
            ways = _ways(name, model, kept, client)
            rounds: dict[str, list[list[float]]] = {way: [] for way in ways}
            for _ in range(_ROUNDS):
                for way, ask in ways.items():
                    ask(tables[name][0])  # warms up
                    rounds[way].append([_seconds(ask, query) for query in tables[name][:count]])
            least = {way: [min(each) for each in zip(*rounds[way], strict=True)] for way in ways}
            told[name] = {
                way: {
                    "p50_ms": round(1e3 * median(taken), 2),
                    "over_bare_p50_ms": round(
                        1e3 * median(map(operator.sub, taken, least["bare"])), 2
                    ),
                }
                for way, taken in least.items()
            }
    return told


def _seconds(ask: Callable[[str], object], query: str) -> float:
    begin = perf_counter()
    ask(query)
    return perf_counter() - begin


def _ways(
    name: str, model: molspec.Model, kept: KeptConnection, client: httpx.Client
) -> dict[str, Callable[[str], object]]:
    def body(query: str) -> dict[str, Any]:
        return {"model": name, "queries": [query]}

    return {
        "bare": lambda query: model.predict([query]),
        "canonical": lambda query: [
            each.canonical for each in model.predict([query])[0].predictions
        ],
        "plain": lambda query: kept.post(body(query)),
        "httpx": lambda query: client.post("/v1/predict", json=body(query)).raise_for_status(),
    }


def load(
    server: Server, models: dict[str, molspec.Model], tables: Tables, flags: argparse.Namespace
) -> Any:
    """Clients at once, then every good answer compared."""
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


def beside(server: Server, tables: Tables, count: int) -> Any:
    """Short requests one after the other, alone and beside four that ask for long beams on end."""

    async def short() -> list[float]:
        async with httpx.AsyncClient(base_url=server.url, timeout=600) as client:
            seconds = []
            for query in tables["retro"][:count]:
                begin = perf_counter()
                body = {"model": "retro", "queries": [query]}
                (await client.post("/v1/predict", json=body)).raise_for_status()
                seconds.append(perf_counter() - begin)
            return seconds

    async def long(number: int) -> None:
        async with httpx.AsyncClient(base_url=server.url, timeout=600) as client:
            while True:
                queries = tables["retro"][number * _LIMIT :][:_LIMIT]
                body = {"model": "retro", "queries": queries, "n_best": _LIMIT}
                (await client.post("/v1/predict", json=body)).raise_for_status()

    async def both() -> list[float]:
        others = [asyncio.create_task(long(number)) for number in range(4)]
        await asyncio.sleep(1)
        seconds = await short()
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        return seconds

    return {"alone": _latency(asyncio.run(short())), "beside": _latency(asyncio.run(both()))}


def stop(server: Server, tables: Tables) -> Any:
    """SIGTERM while requests are under way; then a kill, and a server on the same port."""

    async def asked() -> Counter[str]:
        found: Counter[str] = Counter()

        async def one(number: int) -> None:
            async with httpx.AsyncClient(base_url=server.url, timeout=600) as client:
                body = good_body(random.Random(number), tables)
                try:
                    found[str((await client.post("/v1/predict", json=body)).status_code)] += 1
                except httpx.HTTPError as error:
                    found[type(error).__name__] += 1

        tasks = [asyncio.create_task(one(number)) for number in range(200)]
        while sum(found.values()) < 20:
            await asyncio.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        await asyncio.gather(*tasks)
        return found

    answered = asyncio.run(asked())
    status = server.process.wait(60)
    port = int(server.url.rpartition(":")[2])
    killed = Server.start(port)
    killed.process.kill()
    killed.process.wait()
    again = Server.start(port)
    health = httpx.get(f"{again.url}/readyz", timeout=60).status_code
    again.process.terminate()
    return {
        "answers_under_sigterm": dict(answered),
        "exit_status": status,
        "ready_after_kill": health,
        "seconds_to_start": round(again.seconds, 1),
    }


def peer(tables: Tables, flags: argparse.Namespace) -> Any:
    """Good requests alone, to each server in its turn, twice."""
    from peering.convert import convert

    for name in tables:
        convert(name, flags.peer / name)
    folders = [f"{name}={flags.peer / name}" for name in tables]
    script = str(Path(__file__).parent / "peering" / "serving.py")
    told: dict[str, list[Any]] = {"molspec int8": [], "CTranslate2 int8": []}
    for _ in range(2):
        for name, measured in told.items():
            ours = name.startswith("molspec")
            server = (
                Server.start(0, "--dtype", "int8")
                if ours
                else Server.run(script, "CTranslate2", "int8", *folders)
            )
            try:
                asyncio.run(_load(server.url, tables, 100, flags.clients, ("good",)))
                begin = perf_counter()
                count = flags.requests // 10
                tally = asyncio.run(_load(server.url, tables, count, flags.clients, ("good",)))
                seconds = perf_counter() - begin
                figures = {**_latency(tally.seconds), "a_second": round(count / seconds, 1)}
                measured.append(figures)
            finally:
                server.process.kill()
    return told


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tables", nargs=2, metavar="NAME=FILE", help="product and retro")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--singles", type=int, default=100, help="requests of single and beside")
    parser.add_argument("--peer", type=Path, metavar="FOLDER", help="of converted models")
    parser.add_argument("--parts", nargs="+", default=["single", "load", "beside", "stop"])
    flags = parser.parse_args(arguments)
    named = dict(text.split("=", 1) for text in flags.tables)
    tables = {
        name: [row.query for row in islice(evaluation.PairTable(Path(file), task=name), 200)]
        for name, file in named.items()
    }
    models = {name: molspec.load(name) for name in tables}
    server = Server.start()
    told: dict[str, Any] = {
        "machine": machine.describe(),
        "weights": {name: model.identity.weights[:8] for name, model in models.items()},
        "ready_s": round(server.seconds, 1),
    }
    try:
        parts: dict[str, Callable[[], object]] = {
            "single": lambda: single(server, models, tables, flags.singles),
            "load": lambda: load(server, models, tables, flags),
            "beside": lambda: beside(server, tables, flags.singles),
            "stop": lambda: stop(server, tables),
        }
        for part, measured in parts.items():
            if part in flags.parts:
                told[part] = measured()
                print(part, json.dumps(told[part]), flush=True)
    finally:
        server.process.kill()
    if flags.peer is not None:
        told["peer"] = peer(tables, flags)
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
