"""A server that cannot start, argument "wrong" or "dying", or one that cannot stop, "stuck"."""

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI

from molspec.common.console import one_line_errors, value_errors_are_usage_errors
from molspec.server import processes, serving
from molspec.server.limits import Limits
from molspec.server.serving import ServerSettings, Start


@dataclass(frozen=True)
class Broken(ServerSettings):
    """Its models are damaged, or end the process that starts them."""

    is_wrong: bool = True

    def load(self, processes: int = 1) -> Start:
        """Raises an error or returns what ends the process."""
        if self.is_wrong:
            raise ValueError("the model is damaged")
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
    settings = Broken([("any", "any")], is_wrong=sys.argv[1] == "wrong")
    with one_line_errors(), value_errors_are_usage_errors():
        processes.run_many(settings, serving.listen("127.0.0.1", 0), 2, print)
