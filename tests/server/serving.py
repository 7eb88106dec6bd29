"""A server in this process, on its own port, for tests that need real connections."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import httpx
import uvicorn

from molspec.server.app import make_app
from molspec.server.connections import Protocol
from molspec.server.limits import Limits
from molspec.server.service import Service
from molspec.server.serving import listen, url_of
from molspec.server.worker import Worker
from tests import tiny

#: Tiny models rarely end an answer themselves, so this limits its length.
SHORT = {"max_length": 12}


def service(limits: Limits | None = None, batch_size: int = 8) -> Service:
    """Two tiny models: one for retrosynthesis, one without a task."""
    limits = limits or Limits()
    models = {"retro": tiny.model(1), "other": tiny.model(2)}
    models["retro"].task = "retro"
    return Service({n: Worker(n, m, batch_size, limits.waiting) for n, m in models.items()}, limits)


def metric_values(client: httpx.Client) -> dict[str, float]:
    """The counts of a server, by name."""
    lines = client.get("/metrics").text.splitlines()
    pairs = (line.rpartition(" ") for line in lines if line[0] != "#")
    return {name: float(value) for name, _, value in pairs}


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()


def stripped(app: Any, prefix: str) -> Any:
    """An application behind a proxy that strips a prefix of paths, and serves no others."""

    async def proxy(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            inside = scope["path"].startswith(f"{prefix}/")
            path = scope["path"].removeprefix(prefix) if inside else "/outside"
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await app(scope, receive, send)

    return proxy


@contextmanager
def running(app: Any) -> Iterator[str]:
    """Serves the application, gives its URL, and stops it as SIGTERM would."""
    with listen("127.0.0.1", 0) as listener:
        server = _Server(uvicorn.Config(app, http=Protocol, log_level="warning"))
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert server.listens.wait(30)
            yield url_of(listener)
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@contextmanager
def serving(
    custom_service: Service | None = None,
    keys: tuple[str, ...] = (),
    hosts: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
) -> Iterator[str]:
    """Starts the whole server and gives its URL."""
    with running(make_app(custom_service or service(), keys, hosts, origins)) as url:
        yield url
