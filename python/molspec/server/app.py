"""The application: contracts, page, health, metrics, and the responses to errors."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from molspec import __version__
from molspec.prediction.options import OURS
from molspec.server import askcos, chemformer, guards, metrics, pending, planning, schemas, v1
from molspec.server.service import Service, UnknownModelError
from molspec.server.worker import BusyError, EngineError, StoppedError

#: The errors of a request that its refusal names.
_FEW = 20
#: Characters of a wrong value that an error shows.
_SHOWN = 40
_PAGE = Path(__file__).with_name("page")
#: Media types that are parsed as JSON.
_JSON = re.compile(r"application/(.+\+)?json", re.IGNORECASE)
#: The page may call only this server, and no other page may embed it.
_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",  # requested again with its tag
}

#: The responses to requests that cannot be answered; of a withdrawn one, the client has left.
_STATUSES: dict[type[Exception], int] = {
    UnknownModelError: 404,
    BusyError: 429,
    pending.WithdrawnError: 499,
    EngineError: 500,
    StoppedError: 503,
}


class _AsciiJSON(JSONResponse):
    """An error may quote text of a request that UTF-8 cannot encode: a lone surrogate."""

    def render(self, content: Any) -> bytes:
        """Write it in ASCII."""
        return json.dumps(content).encode()


def make_app(
    service: Service,
    keys: Collection[str] = (),
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
) -> FastAPI:
    """Build the application. When it ends, it stops the service's models.

    keys: a request needs one of them. hosts: host names that a request may give; without them any
        is allowed. origins: pages of these may call the server from a browser (CORS).
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
        docs_url=None,  # its pages load scripts from other hosts
        redoc_url=None,
    )
    routers = [each.make_router(service) for each in (v1, chemformer, askcos, planning)]
    for router in routers:
        app.include_router(router)
    _add_health(app, service)
    _add_page(app)
    _add_errors(app)
    app.add_middleware(guards.Guard, keys=keys, hosts=hosts, most_bytes=service.limits.body_bytes)
    if origins:  # around the guard: a browser asks without a key, and reads refusals
        app.add_middleware(
            CORSMiddleware,
            allow_origins=[*origins],
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-API-Key"],
            expose_headers=["Retry-After"],
        )
    app.add_middleware(guards.Timer, routers=[*routers, app.router])
    return app


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthz() -> dict[str, str]:
        """Report that the process answers."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"])
    async def readyz() -> JSONResponse:
        """Report whether every model answers."""
        states = service.readiness()
        return JSONResponse({"models": states}, 200 if all(states.values()) else 503)

    @app.get("/metrics", tags=["health"], response_class=Response)
    def counts() -> Response:
        """Return the counts for Prometheus."""
        text, media_type = metrics.exposition()
        return Response(text, media_type=media_type)


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(_PAGE / "index.html", headers=_PAGE_HEADERS)

    app.mount("/page", _PageFiles(directory=_PAGE), name="page")


class _PageFiles(StaticFiles):
    """Files that a browser requests again with their tags, so that an upgrade is complete."""

    def file_response(self, *arguments: Any, **more: Any) -> Response:
        response = super().file_response(*arguments, **more)
        response.headers["Cache-Control"] = _PAGE_HEADERS["Cache-Control"]
        return response


def _message(error: dict[str, Any], known: Iterable[str]) -> str:
    """Its message; of a field that there is not, the one of `known` that was meant."""
    if error["type"] == "extra_forbidden":
        name = str(error["loc"][-1])
        for meant in get_close_matches(OURS.get(name, name), known, n=1):
            return f"no such field: did you mean {meant}?"
    if error["type"] == "json_invalid":
        return f"{error['msg']}: {error['ctx']['error']}"
    is_named = error["type"] in ("value_error", "extra_forbidden", "missing")
    value = [] if is_named else error.get("input")
    shown = f", it is {json.dumps(value)}" if isinstance(value, bool | int | float | None) else ""
    if isinstance(value, str):
        shown = f", it is {value[:_SHOWN]!r}"
    return f"{error['msg']}{shown}"


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> JSONResponse:
        kind = request.headers.get("content-type", "")
        if request.method == "POST" and not _JSON.fullmatch(kind.partition(";")[0].strip()):
            detail = f"Content-Type is {kind!r}: expected application/json"
            return _AsciiJSON({"detail": detail}, 415)
        known = schemas.PredictBody.model_fields if request.url.path == "/v1/predict" else ()
        # Without the input, which may be large or impossible to encode.
        errors: list[dict[str, Any]] = [
            {key: each[key] for key in ("type", "loc")} | {"msg": _message(each, known)}
            for each in error.errors()[:_FEW]
        ]
        return _AsciiJSON({"detail": errors}, 422)

    async def failed(_: Request, error: Exception) -> JSONResponse:
        headers = {}
        if isinstance(error, BusyError | StoppedError):
            headers["Retry-After"] = str(error.retry_after)
        return _AsciiJSON({"detail": str(error)}, _STATUSES[type(error)], headers)

    for kind in _STATUSES:
        app.add_exception_handler(kind, failed)
