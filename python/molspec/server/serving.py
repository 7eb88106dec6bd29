"""Runs a server, in this process or in several that share a port."""

from __future__ import annotations

import asyncio
import errno
import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import ceil
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import LOGGING_CONFIG

from molspec.common.console import UsageError, one_line_errors, value_errors_are_usage_errors
from molspec.engine.ops import set_num_threads
from molspec.planners.stock import Match, read_stock
from molspec.prediction.model import load
from molspec.prediction.options import DEFAULT_BATCH_SIZE
from molspec.server.app import make_app
from molspec.server.connections import Protocol
from molspec.server.limits import Limits
from molspec.server.metrics import FOLDER_VARIABLE
from molspec.server.service import Service
from molspec.server.worker import Worker

#: Seconds between looks at the processes, and before one that ended is started again.
_LOOK = 0.2
_PAUSE = 1.0
#: Processes that may end in a row before they listen; then no more are started.
_MOST_FAILURES = 3
#: Connections that wait to be accepted.
_BACKLOG = 2048
#: Seconds at a stop in which requests of open connections may still arrive.
_LAST_READ = 0.2
#: Seconds after the limit of a request within which a stop ends the process, whatever it does.
_LAST_GRACE = 5
#: The status of a command that cannot be carried out as given.
_WRONG_USE = 2
_STOPS = (signal.SIGTERM, signal.SIGINT)

#: Called with the address once the server listens.
Tell = Callable[[str], None]


@dataclass(frozen=True)
class ServerSettings:
    """The settings of a server, as plain values, from which a process makes its application.

    models: by their names in requests, a bundled model or the path of a checkpoint.
    """

    models: Sequence[tuple[str, str]]
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    batch_size: int = DEFAULT_BATCH_SIZE
    limits: Limits = field(default_factory=Limits)
    keys: tuple[str, ...] = field(default=(), repr=False)
    #: Host names that requests may give; without them any is allowed.
    hosts: tuple[str, ...] = ()
    #: Origins of other pages that may call the server from a browser.
    origins: tuple[str, ...] = ()
    log_level: str = "warning"
    access_log: bool = False
    #: The file of molecules for sale, and how they match.
    stock: Path | None = None
    match: Match | None = None

    def app(self) -> FastAPI:
        """Load the models and start their threads.

        Raises ValueError if a model is broken, or the stock has no molecules.
        """
        stock = None if self.stock is None else read_stock(self.stock, self.match)
        set_num_threads(self.threads)
        loaded = {name: load(source, self.device, self.dtype) for name, source in self.models}
        workers = {
            name: Worker(name, model, self.batch_size, self.limits.waiting)
            for name, model in loaded.items()
        }
        return make_app(Service(workers, self.limits, stock), self.keys, self.hosts, self.origins)


def listen(host: str, port: int) -> socket.socket:
    """Bind the port, or any free one for 0. Raises OSError, naming both, if that fails."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        taken = socket.socket(family, kind, protocol)
        try:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(address)
            taken.listen(_BACKLOG)  # before that another server could bind the same port
        except OSError:
            taken.close()
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    except UnicodeError as error:
        raise OSError(errno.EINVAL, "no host has such a name", f"{host}:{port}") from error
    return taken


def url_of(taken: socket.socket) -> str:
    """The address for a browser."""
    host, port = taken.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Reports its address as soon as it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and read the requests that open ones have begun."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(_LAST_READ)
        # The system's alarm ends a process whose threads are stuck in native code.
        signal.alarm((self.config.timeout_graceful_shutdown or 0) + _LAST_GRACE)
        await super().shutdown(sockets)


def run(settings: ServerSettings, taken: socket.socket, tell: Tell) -> None:
    """Serve in this process until SIGTERM or SIGINT, and answer all accepted queries.

    Raises ValueError if a model is broken.
    """
    config = uvicorn.Config(
        settings.app(),
        http=Protocol,
        log_config=_log_config(),
        log_level=settings.log_level,
        access_log=settings.access_log,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=ceil(settings.limits.seconds),
    )
    if settings.access_log:
        logging.getLogger("uvicorn.access").setLevel(logging.INFO)
    _Server(config, lambda: tell(url_of(taken))).run([taken])


def _log_config() -> dict[str, Any]:
    """Uvicorn's own, with the lines of requests on standard error too."""
    config = deepcopy(LOGGING_CONFIG)
    config["handlers"]["access"]["stream"] = "ext://sys.stderr"
    return config


def run_many(settings: ServerSettings, taken: socket.socket, count: int, tell: Tell) -> None:
    """Serve in `count` processes, each with the models, that take requests from one port.

    The first one tests that the models can be served; one that ends later is started again. They
    end when this process ends, for any reason.

    Raises SystemExit with the status of a process that failed to start, which has printed the
    reason, and UsageError if several in a row end before they listen.
    """
    stopping: list[int] = []
    for number in _STOPS:
        signal.signal(number, lambda received, _: stopping.append(received))
    with tempfile.TemporaryDirectory(prefix="molspec-") as folder:
        os.environ[FOLDER_VARIABLE] = folder
        processes = [_Process.start(settings, taken, tell)]
        failures = 0
        try:
            while not stopping:
                time.sleep(_LOOK)
                if processes[0].listens.is_set() and len(processes) < count:
                    processes += [_Process.start(settings, taken, tell) for _ in range(count - 1)]
                for place, (process, listens) in enumerate(processes):
                    if process.is_alive() or stopping:
                        continue
                    mark_process_dead(process.pid)  # removes its gauges: it has no queries
                    failures = 0 if listens.is_set() else failures + 1
                    if failures and process.exitcode == _WRONG_USE:
                        raise SystemExit(_WRONG_USE)
                    if failures == _MOST_FAILURES:
                        raise UsageError(
                            f"{failures} processes in a row ended before they listened, the last "
                            f"with status {process.exitcode}"
                        )
                    time.sleep(_PAUSE)
                    processes[place] = _Process.start(settings, taken, tell)
        finally:
            taken.close()
            for process, _ in processes:
                process.terminate()
            for process, _ in processes:
                process.join()


class _Process(NamedTuple):
    """One of several serving processes, and whether it listens."""

    process: SpawnProcess
    listens: Event

    @classmethod
    def start(cls, settings: ServerSettings, taken: socket.socket, tell: Tell) -> _Process:
        context = multiprocessing.get_context("spawn")
        listens = context.Event()
        process = context.Process(target=_run_beside, args=(settings, taken, tell, listens))
        process.start()
        return cls(process, listens)


def _run_beside(settings: ServerSettings, taken: socket.socket, tell: Tell, listens: Event) -> None:
    """Serve as one of several processes until the parent process ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave_with(parent: BaseProcess) -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    def listening(url: str) -> None:
        listens.set()
        tell(url)

    Thread(target=leave_with, args=(parent,), daemon=True).start()
    with one_line_errors(), value_errors_are_usage_errors():
        run(settings, taken, listening)
