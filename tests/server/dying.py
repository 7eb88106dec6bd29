"""A server that cannot start, argument "wrong" or "dying", or one that cannot stop, "stuck"."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import typer
from fastapi import FastAPI

from molspec.console.usage import one_line_errors
from molspec.server import processes
from molspec.server.limits import Limits
from molspec.server.processes import Settings


@dataclass(frozen=True)
class Broken(Settings):
    """Its models are damaged, or end the process that loads them."""

    is_wrong: bool = True

    def app(self) -> FastAPI:
        """Raises an error or ends the process."""
        if self.is_wrong:
            raise ValueError("the model is damaged")
        os._exit(7)


@dataclass(frozen=True)
class Stuck(Settings):
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
        processes._LAST_GRACE = 1
        with processes.listen("127.0.0.1", 0) as listener:
            processes.run(Stuck([], limits=Limits(seconds=0.5)), listener, print)
    processes._PAUSE = 0.0
    settings = Broken([("any", "any")], is_wrong=sys.argv[1] == "wrong")
    try:
        with one_line_errors(), processes.listen("127.0.0.1", 0) as listener:
            processes.run_many(settings, listener, 2, print)
    except typer.Exit as error:
        sys.exit(error.exit_code)
