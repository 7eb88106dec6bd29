"""The host's part of a round on a device does not grow with the rows."""

import sys
from contextlib import nullcontext
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from molspec._native import LAYOUTS, GuessModel, NoDraftOptions, SequenceSpec
from molspec.decoding import Source, Strategy
from molspec.engine.cuda import executor
from molspec.engine.cuda.executor import LIVE, GraphExecutor
from molspec.engine.cuda.outbox import Outbox
from tests import tiny
from tests.cuda.sessions import Recorder, train_guess

CPU, HEAD = torch.device("cpu"), LAYOUTS["GreedyAnswer"]
SPEC = SequenceSpec(max_length=9, drafter=NoDraftOptions())
STRATEGY = Strategy(SPEC)


class CountingOutbox(Outbox):
    """Counts copies."""

    count = 0

    def put(self, values: npt.NDArray[np.generic], target: Tensor) -> None:
        self.count += 1
        super().put(values, target)


class Rounds(GraphExecutor[SequenceSpec]):
    """Greedy rounds whose kernels do nothing."""

    def __init__(self, rows: int) -> None:
        self.outbox = CountingOutbox(CPU)
        caches: Any = SimpleNamespace(
            device=CPU,
            graphs=Recorder(),
            on_stream=nullcontext,
            outbox=self.outbox,
            query_count=rows,
            reserve=bool,
            spec=tiny.SPEC,
            step_size=int,
        )
        sizes: Any = None
        super().__init__(caches, SPEC, train_guess(False), sizes)

    @staticmethod
    def _sizes_of(*_: object) -> None:
        return None

    def _make_buffers(self, spec: SequenceSpec, guess: GuessModel) -> np.dtype[Any]:
        return np.dtype([("head", HEAD)])

    def _new_head(self) -> npt.NDArray[np.void]:
        head = np.zeros((), dtype=HEAD)
        head["state"] = LIVE
        return head

    def _start(self, *_: object) -> int:
        return 2

    def _launch(self, size: int) -> None:
        self.size = size

    def _hypotheses(self, *_: object) -> list[Any]:
        return []

    def states(self) -> list[int]:
        """The state of every row on the device."""
        images = self._answers.numpy().view(self._row)
        states: list[int] = images["head"]["state"][:, 0].tolist()
        return states

    def finish(self, row: int) -> None:
        """Let the device finish a row."""
        self._answers.numpy().view(self._row)["head"]["state"][row] = LIVE + 1


def lines(run: Any) -> int:
    """The lines of the executor's code that the interpreter runs: every turn of a loop counts.

    Not its instructions, which Python 3.12 does not always trace.
    """
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != executor.__file__:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def started(rows: int) -> Rounds:
    rounds = Rounds(rows)
    for row in range(rows):
        rounds.start(row, STRATEGY, Source([], []))
    return rounds


def test_a_round_of_many_rows_takes_the_interpreter_no_longer() -> None:
    counts = {}
    for rows in (8, 1024):
        rounds = started(rows)
        rounds.run()
        counts[rows] = lines(rounds.run)
        assert rounds.live_count == rows
        assert rounds.size == 2 * rows
    assert 0 < counts[1024] == counts[8] < 100


@pytest.mark.parametrize("rows", [1, 2, 1024])
def test_rows_that_begin_together_are_sent_together(rows: int) -> None:
    rounds = Rounds(rows + 1)
    before = rounds.outbox.count
    for row in range(rows):
        rounds.start(row, STRATEGY, Source([], []))
    assert rounds.states() == [0] * (rows + 1)
    rounds.run()
    assert rounds.states() == [LIVE] * rows + [0]
    assert rounds.outbox.count - before <= 1


def test_rows_end_and_begin_again() -> None:
    rounds = started(4)
    rounds.cancel(3)  # before it has begun
    rounds.run()
    assert rounds.states() == [LIVE] * 3 + [0]
    rounds.finish(1)
    rounds.cancel(0)
    assert rounds.live_count == 2
    done = [each.row for _ in range(3) for each in rounds.run()]
    assert done == [1]
    assert rounds.states() == [0, LIVE + 1, LIVE, 0]
    rounds.start(1, STRATEGY, Source([], []))
    assert [rounds.run() for _ in range(3)] == [[], [], []]
    assert rounds.states() == [0, LIVE, LIVE, 0]
    rounds.end()
    assert rounds.live_count == 0
    assert LIVE not in rounds.states()
