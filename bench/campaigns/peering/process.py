"""Starts a peer's process and sends it requests."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from peering.engines import SETTINGS
from processes import JsonProcess

_WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True)
class Reply:
    """The seconds and answers of a request; peak_bytes: the process's peak resident memory."""

    seconds: float
    answers: list[list[str]]
    peak_bytes: int


class PeerProcess(JsonProcess):
    """One peer with one setting, loaded in a process that waits for requests."""

    def __init__(self, folder: Path, name: str, setting: str, threads: int) -> None:
        self.name, self.setting = name, setting
        environment = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL")}
        environment |= SETTINGS[name][setting]
        command = (sys.executable, _WORKER, folder, name, setting, str(threads))
        super().__init__(*command, environment=environment, log=True)

    def answer(self, batches: Sequence[Sequence[str]], n_best: int) -> Reply:
        """Answer batches one after the other."""
        return Reply(**self.request({"batches": batches, "n_best": n_best}))


def first_answer(folder: Path, name: str, setting: str, threads: int, query: str) -> Reply:
    """A fresh process's answer to its first query; seconds are from its start."""
    begin = perf_counter()
    with PeerProcess(folder, name, setting, threads) as process:
        reply = process.answer([[query]], 1)
        return replace(reply, seconds=perf_counter() - begin)
