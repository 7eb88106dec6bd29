"""A server whose processes end, argument "dying", or one that cannot stop, "stuck"."""

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI

from molspec.common.console import one_line_errors
from molspec.server import processes, serving
from molspec.server.limits import Limits
from molspec.server.serving import ServerSettings, Start


@dataclass(frozen=True)
class Dying(ServerSettings):
    """Its models end the process that starts them."""

    def load(self, processes: int = 1) -> Start:
        """Of what ends the process."""
        return lambda: os._exit(7)


@dataclass(frozen=True)
class Stuck(ServerSettings):
    """Its models never stop: their threads are in native code."""

    def load(self, processes: int = 1) -> Start:
        """Of an application whose end takes for ever."""

        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            yield
            time.sleep(1000)

        return lambda: FastAPI(lifespan=lifespan)


if __name__ == "__main__":
    if sys.argv[1] == "stuck":
        serving._LAST_GRACE = 1
        with serving.listen("127.0.0.1", 0) as listener:
            serving.serve(Stuck([], limits=Limits(seconds=0.5)), listener, print)
    processes._PAUSE = 0.0
    with one_line_errors():
        processes.run_many(Dying([]), serving.listen("127.0.0.1", 0), 2, print)
