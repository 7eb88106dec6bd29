"""A server of two processes that cannot start: argument "wrong" or "dying"."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import typer
from fastapi import FastAPI

from molspec.console.usage import one_line_errors
from molspec.server import processes
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


if __name__ == "__main__":
    processes._PAUSE = 0.0
    settings = Broken([("any", "any")], is_wrong=sys.argv[1] == "wrong")
    try:
        with one_line_errors(), processes.listen("127.0.0.1", 0) as listener:
            processes.run_many(settings, listener, 2, print)
    except typer.Exit as error:
        sys.exit(error.exit_code)
