"""Starts a peer's process and sends it requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import IO

from peering.engines import SETTINGS

_WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True)
class Reply:
    """The seconds and answers of a request; peak_bytes: the process's peak resident memory."""

    seconds: float
    answers: list[list[str]]
    peak_bytes: int


class PeerProcess:
    """One peer with one setting, loaded in a process that waits for requests.

    Raises RuntimeError, with the end of the process's output, if it dies.
    """

    def __init__(self, folder: Path, name: str, setting: str, threads: int) -> None:
        self.name, self.setting = name, setting
        self._log = (folder / f"{name} {setting}.log").open("w+")
        environment = os.environ | SETTINGS[name][setting]
        environment |= {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL")}
        self._process = subprocess.Popen(
            [sys.executable, str(_WORKER), str(folder), name, setting, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
        )

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError):
            _open(self._process.stdin).close()
        self._process.wait()
        _open(self._process.stdout).close()
        self._log.close()

    def request(self, batches: Sequence[Sequence[str]], n_best: int) -> Reply:
        """Answer batches one after the other."""
        request = json.dumps({"batches": [list(batch) for batch in batches], "n_best": n_best})
        try:
            print(request, file=_open(self._process.stdin), flush=True)
            line = _open(self._process.stdout).readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._process.wait()
            self._log.seek(0)
            raise RuntimeError(f"{self.name} {self.setting}: {self._log.read()[-2000:]}")
        return Reply(**json.loads(line))


def first_answer(folder: Path, name: str, setting: str, threads: int, query: str) -> Reply:
    """A fresh process's answer to its first query; seconds are from its start."""
    begin = perf_counter()
    with PeerProcess(folder, name, setting, threads) as process:
        reply = process.request([[query]], 1)
        return replace(reply, seconds=perf_counter() - begin)


def _open(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise RuntimeError("the process has no pipe")
    return stream
