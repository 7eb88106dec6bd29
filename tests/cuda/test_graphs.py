"""Captures of graphs, on a stand-in for CUDA graphs that knows what spoils a capture."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from molspec.engine.cuda.graphs import Graphs


class Machine:
    """At most one capture may be under way in the process, and nobody may wait for the device."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.capturing = False
        self.captured = self.replayed = self.emptied = 0
        stream = SimpleNamespace(synchronize=lambda: None)
        for name, stand_in in {
            "CUDAGraph": lambda: Graph(self),
            "Stream": lambda _: stream,
            "stream": lambda _: nullcontext(),
            "device": lambda _: nullcontext(),
            "current_stream": lambda: stream,
            "synchronize": self.refuse,
            "empty_cache": self._empty,
        }.items():
            monkeypatch.setattr(torch.cuda, name, stand_in)
        monkeypatch.setattr(torch._C, "_host_emptyCache", lambda: None, raising=False)

    def refuse(self) -> None:
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
        self._machine.refuse()
        self._machine.capturing = True

    def capture_end(self) -> None:
        self._machine.capturing = False
        self._machine.captured += 1

    def replay(self) -> None:
        self._machine.replayed += 1


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_captures_of_two_threads_take_turns(machine: Machine) -> None:
    errors: list[BaseException] = []

    def capture_too() -> None:
        try:
            machine.graphs().run("other", lambda: None)
        except RuntimeError as error:
            errors.append(error)

    other = Thread(target=capture_too)

    def work() -> None:
        if machine.capturing:
            other.start()
            other.join(0.2)  # it has failed, or it waits

    machine.graphs().run("one", work)
    other.join()
    assert errors == []
    assert machine.captured == 2


def test_no_garbage_is_collected_in_a_capture(machine: Machine) -> None:
    collects: list[tuple[bool, bool]] = []
    machine.graphs().run("key", lambda: collects.append((machine.capturing, gc.isenabled())))
    assert collects[-1] == (True, False)
    assert gc.isenabled()
    assert machine.emptied == 0  # torch's caches are as full as before


def test_work_that_fails_is_captured_at_its_next_use(machine: Machine) -> None:
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
