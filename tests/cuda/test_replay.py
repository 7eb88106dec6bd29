"""Rounds of searches on the host replay captured steps: the same answers without Python's calls."""

import sys
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pytest
import torch

from molspec.engine.cuda import caches
from molspec.engine.cuda.session import CudaSession
from molspec.prediction.results import Results
from tests import tiny
from tests.cuda.emulator import Emulator
from tests.cuda.sessions import EmulatedEngine, Recorder

#: A lone beam that looks ahead.
OPTIONS: dict[str, Any] = {"n_best": 2, "batch_size": 1, "min_length": 5, "max_length": 6}


class Counted:
    """Counts calls of Python, but for the work that stands for a device's."""

    count = 0

    def __call__(self, frame: object, event: str, _: object) -> None:
        self.count += event in ("call", "c_call")

    def graphs(self) -> Recorder:
        count = self

        class Graphs(Recorder):
            def run(self, key: Hashable, work: Callable[[], None]) -> None:
                sys.setprofile(None)
                super().run(key, work)
                sys.setprofile(count)

        return Graphs()


def decoded(cuda: Emulator, monkeypatch: pytest.MonkeyPatch, replays: bool) -> tuple[Results, int]:
    """Answers, and calls of Python, in caches that have been used before."""
    model, counted = tiny.model(), Counted()
    model.engine = engine = EmulatedEngine(cuda, torch.float32)
    engine.graphs = counted.graphs()
    with monkeypatch.context() as patch:
        if not replays:
            patch.setattr(CudaSession, "prepared_step", lambda _: None)
        model.predict(tiny.QUERIES[1:2], **OPTIONS)
        counted.count = 0
        found = model.predict(tiny.QUERIES[1:2], **OPTIONS)
        sys.setprofile(None)
    return found, counted.count


def test_rounds_on_the_host_do_not_return_to_python(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, before = decoded(cuda, monkeypatch, replays=False)
    found, after = decoded(cuda, monkeypatch, replays=True)
    assert found == expected
    passes = found.statistics.decoder_calls
    assert before - after > 80 * (passes - 1) > 0


def test_a_step_is_prepared_again_when_a_buffer_has_moved(cuda: Emulator) -> None:
    session = EmulatedEngine(cuda, torch.float32).session(6)
    session.encode([0], [[4, 5]])
    assert session.prepared_step() is None
    prepared = []
    for count in (1, 1, 9):
        nodes = np.array([[1, 0, i, 0] for i in range(count)], dtype=np.int32)
        session.step(nodes, np.arange(count, dtype=np.int32), 1)
        prepared.append(session.prepared_step())
    assert prepared[0] is prepared[1] is not prepared[2]
    workspace = session._caches.workspace.data_ptr()
    for rows, length, moves in (([1], 200, False), ([2, 3], 2, False), ([4, 5], 200, True)):
        session.encode(rows, [[4] * length] * len(rows))  # no single source moves it
        assert (session._caches.workspace.data_ptr() != workspace) == moves
        assert (session.prepared_step() is not prepared[2]) == moves


def test_a_smaller_step_after_one_that_is_not_replayed_has_room(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "MOST_REPLAYED", 8)
    session = EmulatedEngine(cuda, torch.float32).session(1)
    session.encode([0], [[4, 5]])
    nodes = np.array([[1, 0, i, 0] for i in range(9)], dtype=np.int32)
    session.step(nodes, np.arange(9, dtype=np.int32), 1)
    most = session._caches.spec.max_positions
    assert len(session._caches.path_slots.host) >= 8 * most > 9
