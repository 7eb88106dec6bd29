"""Captures of graphs, on a stand-in for CUDA graphs that refuses invalid captures."""

import gc
from contextlib import nullcontext
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from molspec.engine.cuda.graphs import Graphs


class Machine:
    """Allows one capture at a time in the process, and no wait for the device during it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.capturing = False
        self.captured = self.replayed = self.emptied = 0
        stream = SimpleNamespace(synchronize=lambda: None)
        for name, stand_in in {
            "CUDAGraph": lambda: Graph(self),
            "Stream": lambda _, priority: stream,
            "stream": lambda _: nullcontext(),
            "device": lambda _: nullcontext(),
            "current_stream": lambda: stream,
            "synchronize": self.refuse_in_capture,
            "empty_cache": self._empty,
        }.items():
            monkeypatch.setattr(torch.cuda, name, stand_in)
        monkeypatch.setattr(torch._C, "_host_emptyCache", lambda: None, raising=False)

    def refuse_in_capture(self) -> None:
        if self.capturing:
            raise RuntimeError("a capture is under way")

    def _empty(self) -> None:
        self.emptied += 1

    def graphs(self) -> Graphs:
        return Graphs(torch.device("cuda"))


class Graph:
    """A CUDA graph's stand-in."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def capture_begin(self, **options: Any) -> None:
        del options
        self._machine.refuse_in_capture()
        self._machine.capturing = True

    def capture_end(self) -> None:
        self._machine.capturing = False
        self._machine.captured += 1

    def replay(self) -> None:
        self._machine.replayed += 1


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_captures_of_two_threads_do_not_overlap(machine: Machine) -> None:
    errors: list[BaseException] = []

    def capture_other() -> None:
        try:
            machine.graphs().run("other", lambda: None)
        except RuntimeError as error:
            errors.append(error)

    other = Thread(target=capture_other)

    def work() -> None:
        if machine.capturing:
            other.start()
            other.join(0.2)  # it fails or waits

    machine.graphs().run("one", work)
    other.join()
    assert errors == []
    assert machine.captured == 2


def test_capture_disables_garbage_collection(machine: Machine) -> None:
    states: list[tuple[bool, bool]] = []
    machine.graphs().run("key", lambda: states.append((machine.capturing, gc.isenabled())))
    assert states[-1] == (True, False)
    assert gc.isenabled()
    assert machine.emptied == 0  # torch's caches are not emptied


def test_failed_work_is_captured_at_its_next_use(machine: Machine) -> None:
    graphs = machine.graphs()

    def fail() -> None:
        if machine.capturing:
            raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        graphs.run("key", fail)
    assert gc.isenabled()
    done: list[int] = []
    for _ in range(2):
        graphs.run("key", lambda: done.append(1))
    assert (len(done), machine.replayed) == (2, 1)
