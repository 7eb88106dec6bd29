"""Bodies of requests to every path of the server."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx

from molspec.server.app import make_app
from molspec.server.limits import Limits
from tests.fuzz.draw import Draw
from tests.server.serving import service

_LIMITS = Limits(queries=4, n_best=3, beam_size=3, augmentations=2, body_bytes=20_000, waiting=50)
_APP = make_app(service(_LIMITS))
_BODIES: dict[str, Any] = {
    "/v1/predict": {"model": "retro", "queries": ["CCO.[Na+]"], "n_best": 2, "max_length": 6},
    "/v1/score": {"model": "other", "queries": ["CCO"], "targets": ["CC"]},
    "/v1/draw": {"smiles": "CC(=O)O.N", "product": "CC(N)=O"},
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
