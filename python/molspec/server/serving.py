"""Loads the models of a server, and serves them in this process."""

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.config import LOGGING_CONFIG

from molspec.engine.ops import set_num_threads
from molspec.planners.stock import read_stock
from molspec.prediction.model import load
from molspec.prediction.options import PredictOptions
from molspec.server import app, connections, worker
from molspec.server.limits import Limits
from molspec.server.service import Service

#: Connections that wait to be accepted.
_BACKLOG = 2048
#: Seconds at a stop in which requests of open connections may still arrive.
_LAST_READ = 0.2
#: Seconds after the limit of a request within which a stop ends the process, whatever it does.
_LAST_GRACE = 5

#: Called with the address once the server listens.
Tell = Callable[[str], None]
#: Starts the threads of models that are loaded, and makes the application that they serve.
Start = Callable[[], FastAPI]


@dataclass(frozen=True)
class ServerSettings:
    """The settings of a server, as plain values, from which a process makes its application.

    models: by their names in requests, a bundled model or the path of a checkpoint.
    """

    models: Sequence[tuple[str, str]]
    device: str = "cpu"
    dtype: str | None = None
    threads: int = 1
    batch_size: int = PredictOptions.batch_size
    limits: Limits = field(default_factory=Limits)
    keys: tuple[str, ...] = field(default=(), repr=False)
    #: Host names that requests may give; without them any is allowed.
    hosts: tuple[str, ...] = ()
    #: Origins of other pages that may call the server from a browser.
    origins: tuple[str, ...] = ()
    log_level: str = "warning"
    access_log: bool = False
    #: What `read_stock` takes; without it there is no stock.
    stock: Mapping[str, Any] | None = None

    def load(self, processes: int = 1) -> Start:
        """Read the stock and the models. Start them in this process, or in ones forked from it.

        Raises ValueError if a model is broken or that many processes cannot share it, or if the
        stock has no molecules.
        """
        stock = None if self.stock is None else read_stock(**self.stock)
        loaded = {name: load(source, self.device, self.dtype) for name, source in self.models}
        for model in loaded.values():
            model.check_processes(processes)

        def start() -> FastAPI:
            set_num_threads(self.threads)
            workers = {
                name: worker.Worker(name, model, self.batch_size, self.limits.waiting)
                for name, model in loaded.items()
            }
            service = Service(workers, self.limits, stock)
            return app.make_app(service, self.keys, self.hosts, self.origins)

        return start


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


def serve(
    settings: ServerSettings, taken: socket.socket, tell: Tell, start: Start | None = None
) -> None:
    """Serve in this process until SIGTERM or SIGINT, and answer all accepted queries.

    start: of `settings.load`, if it was called.

    Raises ValueError if a model is broken.
    """
    log_config = deepcopy(LOGGING_CONFIG)
    log_config["handlers"]["access"]["stream"] = "ext://sys.stderr"
    config = uvicorn.Config(
        (start or settings.load())(),
        http=connections.Protocol,
        log_config=log_config,
        log_level=settings.log_level,
        access_log=settings.access_log,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=ceil(settings.limits.seconds),
    )
    if settings.access_log:
        logging.getLogger("uvicorn.access").setLevel(logging.INFO)
    _Server(config, lambda: tell(url_of(taken))).run([taken])
