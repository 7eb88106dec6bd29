"""Bodies of requests to every path of the server."""

import asyncio
import json
from typing import Any
from unittest.mock import MagicMock
from urllib.parse import quote

import httpx
from uvicorn.config import Config
from uvicorn.server import ServerState

from molspec.server.app import make_app
from molspec.server.connections import MOST_HEAD_BYTES, Protocol
from molspec.server.limits import Limits
from tests.fuzz.draw import Draw
from tests.server.serving import service

_LIMITS = Limits(queries=4, n_best=3, beam_size=3, augmentations=2, body_bytes=20_000, waiting=50)
_APP = make_app(service(_LIMITS))
_BODIES: dict[str, Any] = {
    "/v1/predict": {"model": "retro", "queries": ["CCO.[Na+]"], "n_best": 2, "max_length": 6},
    "/v1/score": {"model": "other", "queries": ["CCO"], "targets": ["CC"]},
    "/v1/read": {"text": "InChI=1S/CH4/h1H4"},
    "/v1/plan": {"smiles": "CC(=O)NC", "max_expansions": 1, "max_time": 0.1},
    "/v1/stock": {"smiles": ["CC(=O)O", "N"]},
    "/predictions/retro": {"model_name": "retro", "smiles": ["CCO"]},
    "/chemformer-api/predict": ["CCO"],
    "/chemformer-api/log_likelihood": [{"input_smiles": "CCO", "output_smiles": "CC"}],
    "/chemformer-api/compound_log_likelihood": [{"input_smiles": "CCO", "output_smiles": "CC"}],
}
_NAMES = ("n_predictions", "model", "n_augments", "n_best", "x")


def bodies(draw: Draw) -> None:
    """Every body is answered, or refused with a client error and its reason."""
    path = draw.choice(list(_BODIES))
    valid_body = json.dumps(_BODIES[path]).encode()
    body = draw.changed_json(valid_body) if draw.below(4) else draw.damaged(valid_body)
    query = "&".join(f"{draw.choice(_NAMES)}={_value(draw)}" for _ in range(draw.below(3)))
    status, answer = asyncio.run(_post(f"{path}?{query}", body))
    assert status < 500
    if status >= 400:
        assert answer["detail"]


_REQUEST = (
    b"POST /v1/predict?a=b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nTrailer: a\r\n\r\n"
)


def connections(draw: Draw) -> None:
    """Any bytes, in any pieces, are a request or refused; no head is stored beyond its limit."""
    asyncio.run(_feed(draw.damaged(_REQUEST * (1 + draw.below(3))), draw))


async def _feed(data: bytes, draw: Draw) -> None:
    transport = MagicMock()
    transport.is_closing.side_effect = lambda: transport.close.called
    protocol = Protocol(Config(_APP, http=Protocol, log_level="critical"), ServerState(), {})
    protocol.connection_made(transport)
    part = draw.choice([b"a: b\r\n", b"b", b"\r\n", b"%61", b";"]) * (1 + draw.below(20_000))
    pieces = [data[: (cut := draw.below(200))], *[part] * draw.below(20), data[cut:]]
    for piece in pieces:
        if not transport.close.called:
            protocol.data_received(piece)
        stored = [b"%s%s" % each for each in getattr(protocol, "headers", None) or ()]
        assert len(b"".join(stored)) <= MOST_HEAD_BYTES + len(piece)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    protocol.connection_lost(None)


def _value(draw: Draw) -> str:
    value = str(draw.integer()) if draw.below(2) else draw.text(5)
    return quote(value.encode("utf-8", "surrogatepass"))


async def _post(url: str, body: bytes) -> tuple[int, Any]:
    transport = httpx.ASGITransport(_APP)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        headers = {"content-type": "application/json"}
        response = await client.post(url, content=body, headers=headers)
    answer = None if "ndjson" in response.headers["content-type"] else response.json()
    return response.status_code, answer
