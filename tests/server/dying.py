"""A server that cannot start, argument "wrong" or "dying", or one that cannot stop, "stuck"."""

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI

from molspec.common.console import one_line_errors
from molspec.server import serving
from molspec.server.limits import Limits
from molspec.server.serving import ServerSettings


@dataclass(frozen=True)
class Broken(ServerSettings):
    """Its models are damaged, or end the process that loads them."""

    is_wrong: bool = True

    def app(self) -> FastAPI:
        """Raises an error or ends the process."""
        if self.is_wrong:
            raise ValueError("the model is damaged")
        os._exit(7)


@dataclass(frozen=True)
class Stuck(ServerSettings):
    """Its models never stop: their threads are in native code."""

    def app(self) -> FastAPI:
        """An application whose end takes for ever."""

        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            yield
            time.sleep(1000)

        return FastAPI(lifespan=lifespan)


if __name__ == "__main__":
    if sys.argv[1] == "stuck":
        serving._LAST_GRACE = 1
        with serving.listen("127.0.0.1", 0) as listener:
            serving.run(Stuck([], limits=Limits(seconds=0.5)), listener, print)
    serving._PAUSE = 0.0
    settings = Broken([("any", "any")], is_wrong=sys.argv[1] == "wrong")
    with one_line_errors(), serving.listen("127.0.0.1", 0) as listener:
        serving.run_many(settings, listener, 2, print)
