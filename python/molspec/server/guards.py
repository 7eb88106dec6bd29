"""What a request passes before it is read: a key, the size of its body; and its time, counted."""

from __future__ import annotations

import asyncio
import base64
import hmac
from collections.abc import Callable, Collection
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from molspec.server import metrics
from molspec.server.connections import REQUEST_SECONDS

#: Open to all: whether the server lives, and the page, which asks for a key by itself.
_OPEN = ("/healthz", "/readyz", "/", "/favicon.ico")
_OPEN_FOLDER = "/page/"


class KeyGuard:
    """Lets in who has a key: as a bearer token, as X-API-Key, or as password of basic access."""

    def __init__(self, app: ASGIApp, keys: Collection[str]) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with 401."""
        if scope["type"] != "http" or self._is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        given = _given_keys(scope)
        # All are compared, each in constant time: what a guess costs says nothing.
        if sum(hmac.compare_digest(one, key) for one in given for key in self._keys):
            await self._app(scope, receive, send)
            return
        refusal = JSONResponse(
            {"detail": "a key is needed: Authorization: Bearer KEY, or X-API-Key: KEY"},
            401,
            {"WWW-Authenticate": "Bearer"},
        )
        await refusal(scope, receive, send)

    @staticmethod
    def _is_open(path: str) -> bool:
        return path in _OPEN or path.startswith(_OPEN_FOLDER)


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
                try:
                    given.append(base64.b64decode(rest).partition(b":")[2])
                except ValueError:
                    continue
    return given


class HostGuard:
    """Lets in requests for the server's own names: a page elsewhere cannot rebind its own to it."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = tuple(map(str.lower, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with 400."""
        given = dict(scope.get("headers", ())).get(b"host", b"").decode("latin-1")
        host = urlsplit(f"//{given}").netloc.rpartition("@")[2]
        name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
        if scope["type"] != "http" or name.lower() in self._hosts:
            await self._app(scope, receive, send)
            return
        expected = ", ".join(self._hosts)
        detail = f"Host is {name!r}: expected one of {expected}; --allowed-host adds a name"
        await JSONResponse({"detail": detail}, 400)(scope, receive, send)


class BodyGuard:
    """Refuses bodies of more bytes than are read."""

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app = app
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through whose body is read, or answer it with 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if int(said) > self._most:  # the server itself refuses what is no number
            await self._refuse(scope, receive, send)
            return
        body = b""
        deadline = perf_counter() + REQUEST_SECONDS
        while True:
            try:
                message = await asyncio.wait_for(receive(), deadline - perf_counter())
            except asyncio.TimeoutError:
                detail = f"the body did not come to its end within {REQUEST_SECONDS:g} s"
                await self._refuse(scope, receive, send, 408, detail)
                return
            if message["type"] != "http.request":
                return  # the client is gone
            body += message.get("body", b"")
            if len(body) > self._most:
                await self._refuse(scope, receive, send)
                return
            if not message.get("more_body"):
                break
        await self._app(scope, _after(body, receive), send)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int = 413, detail: str = ""
    ) -> None:
        detail = detail or f"the body is too large: expected at most {self._most} bytes"
        refusal = JSONResponse(
            {"detail": detail},
            status,
            {"Connection": "close"},  # what is left of it is not read
        )
        await refusal(scope, receive, send)


def _after(body: bytes, receive: Receive) -> Callable[[], Any]:
    """What is received of a body that was read, and then of the client."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received


class Timer:
    """Counts requests by route and status, and their seconds."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = perf_counter(), 499  # where nothing is sent, the client is gone
        scope["molspec.arrival"] = begin

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
            route = scope.get("route")
            path = "other" if route is None else getattr(route, "path", "other")
            metrics.request(path, status, perf_counter() - begin)
