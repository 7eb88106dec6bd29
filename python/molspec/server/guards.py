"""Checks a request's host, key and size, and measures its time."""

import asyncio
import base64
import hmac
import json
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import chain
from time import perf_counter
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Match, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from molspec.common.fields import each_once
from molspec.server import metrics
from molspec.server.connections import REQUEST_SECONDS

#: Open to all: the health check, and the page, which itself asks the user for a key.
_OPEN = ("/healthz", "/readyz", "/", "/favicon.ico")
_OPEN_FOLDER = "/page/"
#: Requested by an address, by container runtimes; they reveal nothing.
_PROBES = ("/healthz", "/readyz")


class Guard:
    """Accepts requests to the server's own names, with a key, whose bodies are not too large.

    keys: a request needs one of them: as a bearer token, as X-API-Key, or as password of basic
        access. hosts: names of the server, against DNS rebinding by other pages; without them any
        is allowed.
    """

    def __init__(
        self, app: ASGIApp, keys: Collection[str], hosts: Collection[str], most_bytes: int
    ) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]
        self._hosts = tuple(map(str.lower, hosts))
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body and pass the request on, or answer it with 400 to 422."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check_host(scope)
            self._check_key(scope)
            self._check_coding(scope)
            body = await self._body(scope, receive)
            if b"json" in dict(scope["headers"]).get(b"content-type", b"").lower():
                _check_names(body)
        except HTTPException as error:
            refusal = JSONResponse({"detail": error.detail}, error.status_code, error.headers)
            await refusal(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _after(body, receive), send)

    def _check_host(self, scope: Scope) -> None:
        given = [value for name, value in scope["headers"] if name == b"host"]
        if len(given) > 1:
            raise HTTPException(400, f"{len(given)} Host headers: expected one")
        host = b"".join(given).decode("latin-1")
        name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
        if self._hosts and name.lower() not in self._hosts and scope["path"] not in _PROBES:
            expected = ", ".join(self._hosts)
            detail = f"Host is {name!r}: expected one of {expected}; --allowed-host adds a name"
            raise HTTPException(400, detail)

    def _check_key(self, scope: Scope) -> None:
        path = scope["path"]
        if not self._keys or path in _OPEN or path.startswith(_OPEN_FOLDER):
            return
        given = _given_keys(scope)
        # All keys are compared, each in constant time, so that timing reveals nothing.
        if not sum(hmac.compare_digest(one, key) for one in given for key in self._keys):
            detail = "a key is needed: Authorization: Bearer KEY, or X-API-Key: KEY"
            raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})

    def _check_coding(self, scope: Scope) -> None:
        coding = dict(scope["headers"]).get(b"content-encoding", b"identity").decode("latin-1")
        if coding.strip().lower() not in ("", "identity"):
            detail = f"Content-Encoding is {coding!r}: expected a body that is not compressed"
            raise HTTPException(415, detail, {"Accept-Encoding": "identity"})

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body; None if the client is gone."""
        close = {"Connection": "close"}  # the rest of it is not read
        detail = f"the body is too large: expected at most {self._most} bytes"
        too_large = HTTPException(413, detail, close)
        # uvicorn itself refuses values that are not numbers.
        if int(dict(scope["headers"]).get(b"content-length", b"0")) > self._most:
            raise too_large

        async def read() -> bytes:
            body = b""
            async for piece in Request(scope, receive).stream():
                body += piece
                if len(body) > self._most:
                    raise too_large
            return body

        try:
            return await asyncio.wait_for(read(), REQUEST_SECONDS)
        except ClientDisconnect:
            return None
        except asyncio.TimeoutError:
            detail = f"the body did not come to its end within {REQUEST_SECONDS:g} s"
            raise HTTPException(408, detail, close) from None


def _check_names(body: bytes | None) -> None:
    """Refuse JSON with a name twice in an object, of which the router would take the last value."""
    try:
        with suppress(json.JSONDecodeError, UnicodeDecodeError, RecursionError):  # for the router
            json.loads(body or b"{}", object_pairs_hook=each_once)
    except ValueError as error:
        raise HTTPException(422, str(error)) from error


def _given_keys(scope: Scope) -> list[bytes]:
    given = []
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            given.append(value)
        elif name == b"authorization":
            scheme, _, rest = value.strip().partition(b" ")
            if scheme.lower() == b"bearer":
                given.append(rest.strip())
            elif scheme.lower() == b"basic":
                with suppress(ValueError):
                    given.append(base64.b64decode(rest).partition(b":")[2])
    return given


def _after(body: bytes, receive: Receive) -> Callable[[], Any]:
    """Replays a body that was read, then passes on the client's messages."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received


class Timer:
    """Counts requests by route and status, and their seconds; answers HEAD where GET is.

    routers: of the server; a request to none of their routes is counted as "other".
    """

    def __init__(self, app: ASGIApp, routers: Sequence[Router]) -> None:
        self._app = app
        self._routes = [each for router in routers for each in router.routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = perf_counter(), 499  # if nothing is sent, the client has left
        # The HTTP server, which has its own scope, leaves out the body.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        scope = {**scope, "molspec.arrival": begin, "method": method}

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception:
            status = 500
            raise
        finally:
            # The guard answers some requests before the router sees them.
            met = (each for each in self._routes if each.matches(scope)[0] is not Match.NONE)
            paths = (getattr(each, "path", "") for each in chain([scope.get("route")], met))
            metrics.request(next(filter(None, paths), "other"), status, perf_counter() - begin)
