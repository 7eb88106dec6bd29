"""Runs a server, in this process or in several that share a port."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from threading import Thread
from types import FrameType

import uvicorn

from molspec.server.metrics import FOLDER_VARIABLE
from molspec.server.settings import Settings

#: Seconds between looks at the processes, and before one that ended is started again.
_LOOK = 0.2
_PAUSE = 1.0
#: Seconds in which requests of connections that were taken may still arrive at a stop.
_LAST_READ = 0.2
_STOPS = (signal.SIGTERM, signal.SIGINT)

#: Is told where the server listens, when it does.
Tell = Callable[[str], None]


def listen(host: str, port: int) -> socket.socket:
    """Take the port, any that is free for 0. Raises OSError where it cannot be had."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError:
        taken.close()
        raise
    return taken


def url_of(taken: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = taken.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Says where it listens when it does, and not before."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and read what those that are there have begun to ask."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(_LAST_READ)
        await super().shutdown(sockets)


def run(settings: Settings, taken: socket.socket, tell: Tell) -> None:
    """Serve in this process until SIGTERM or SIGINT, and answer all that is accepted.

    Raises ValueError where a model is broken.
    """
    config = uvicorn.Config(
        settings.app(),
        log_level="warning",
        access_log=False,  # queries are their askers' own
        server_header=False,
        timeout_keep_alive=30,
    )
    _Server(config, lambda: tell(url_of(taken))).run([taken])


def run_many(settings: Settings, taken: socket.socket, count: int, tell: Tell) -> None:
    """Serve in so many processes, each with the models, that take requests from one port.

    One that ends is started again. Where this process ends, by whatever, they do.
    """
    stopping: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        stopping.append(number)

    for number in _STOPS:
        signal.signal(number, stop)
    with tempfile.TemporaryDirectory(prefix="molspec-") as folder:
        os.environ[FOLDER_VARIABLE] = folder
        processes = [_started(settings, taken, tell) for _ in range(count)]
        while not stopping:
            time.sleep(_LOOK)
            for place, process in enumerate(processes):
                if not process.is_alive() and not stopping:
                    time.sleep(_PAUSE)
                    processes[place] = _started(settings, taken, tell)
        taken.close()
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _started(settings: Settings, taken: socket.socket, tell: Tell) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(
        target=_run_beside, args=(settings, taken, tell)
    )
    process.start()
    return process


def _run_beside(settings: Settings, taken: socket.socket, tell: Tell) -> None:
    """Serve as one of several processes, as long as the one that started this lives."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave_with(parent: BaseProcess) -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=leave_with, args=(parent,), daemon=True).start()
    run(settings, taken, tell)
