"""The application: contracts, page, health, metrics; and what errors become."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from molspec import __version__
from molspec.server import askcos, chemformer, drawings, metrics, v1
from molspec.server.guards import Guard, Timer
from molspec.server.pending import WithdrawnError
from molspec.server.service import Service, UnknownModelError
from molspec.server.worker import BusyError, EngineError, StoppedError

_PAGE = Path(__file__).with_name("page")
#: The page asks this server alone, and no other page may stand around it.
_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",  # requested again with its tag
}


#: What is answered where a request cannot be.
_STATUSES = {UnknownModelError: 404, BusyError: 429, StoppedError: 503, EngineError: 500}


class _AsciiJSON(JSONResponse):
    """An error about a request may quote text that UTF-8 has not: half a surrogate pair."""

    def render(self, content: Any) -> bytes:
        """Write it in ASCII."""
        return json.dumps(content).encode()


def make_app(service: Service, keys: Collection[str] = (), hosts: Collection[str] = ()) -> FastAPI:
    """Put everything together. At its end the application stops the service's models.

    keys: a request needs one of them. hosts: names of the server that a request may give; any
        where there is none.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        for worker in service.workers.values():
            await asyncio.to_thread(worker.stop)

    app = FastAPI(
        title="molspec",
        version=__version__,
        description="SMILES-to-SMILES transformers: fast, and exact to the bit.",
        lifespan=lifespan,
        docs_url=None,  # they ask other hosts
        redoc_url=None,
    )
    for contract in (v1, chemformer, askcos, drawings):
        app.include_router(contract.make_router(service))
    _add_health(app, service)
    _add_page(app)
    _add_errors(app)
    app.add_middleware(Guard, keys=keys, hosts=hosts, most_bytes=service.limits.body_bytes)
    app.add_middleware(Timer)
    return app


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthz() -> dict[str, str]:
        """Say that the process answers."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"])
    async def readyz() -> JSONResponse:
        """Say whether every model answers."""
        states = {name: worker.is_alive for name, worker in service.workers.items()}
        return JSONResponse({"models": states}, 200 if all(states.values()) else 503)

    @app.get("/metrics", tags=["health"], response_class=Response)
    def counts() -> Response:
        """Give the counts for Prometheus."""
        text, media_type = metrics.exposition()
        return Response(text, media_type=media_type)


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(_PAGE / "index.html", headers=_PAGE_HEADERS)

    app.mount("/page", StaticFiles(directory=_PAGE), name="page")


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def wrong(_: Request, error: RequestValidationError) -> JSONResponse:
        # Without what was given, which may be large, or no text that can be written.
        errors: list[dict[str, Any]] = [
            {key: each[key] for key in ("type", "loc", "msg")} for each in error.errors()
        ]
        return _AsciiJSON({"detail": errors}, 422)

    @app.exception_handler(UnknownModelError)
    @app.exception_handler(BusyError)
    @app.exception_handler(StoppedError)
    @app.exception_handler(EngineError)
    async def failed(_: Request, error: Exception) -> JSONResponse:
        headers = {}
        if isinstance(error, BusyError | StoppedError):
            headers["Retry-After"] = str(error.retry_after)
        return _AsciiJSON({"detail": str(error)}, _STATUSES[type(error)], headers)

    @app.exception_handler(WithdrawnError)
    async def withdrawn(_: Request, error: WithdrawnError) -> Response:
        return Response(status_code=499)  # nobody reads it
