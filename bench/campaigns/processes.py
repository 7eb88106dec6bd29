"""A process that answers requests, a line of JSON each, by its standard input and output."""

import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

ProcessT = TypeVar("ProcessT", bound="JsonProcess")


class JsonProcess:
    """A process of a command; with a `log`, its messages go to that file."""

    def __init__(
        self, *command: str | Path, environment: Mapping[str, str] | None = None, log: bool = False
    ) -> None:
        self._log = TemporaryFile("w+") if log else None  # noqa: SIM115 - as long as it
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=os.environ | (environment or {}),
        )

    def __enter__(self: ProcessT) -> ProcessT:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError):
            self._process.communicate()
        if self._log is not None:
            self._log.close()

    def move_to(self, core: int) -> None:
        """Run on one core from now on."""
        os.sched_setaffinity(self._process.pid, {core})

    def request(self, request: object) -> dict[str, Any]:
        """Send a request and wait for its reply. Raises RuntimeError if the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended with {self._ending()}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _ending(self) -> str:
        """The status of an ended process, and the end of its messages."""
        status = f"status {self._process.wait()}"
        if self._log is None:
            return status
        self._log.seek(0)
        return f"{status}: {self._log.read()[-2000:]}"
