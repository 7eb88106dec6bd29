"""Threads change the time of a step and nothing else."""

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import molspec
from molspec.engine.devices import on_one_torch_thread
from tests import refused
from tests.engine.models import CONVENTIONS
from tests.engine.trees import batch_of

DTYPES = (torch.float32, torch.bfloat16, torch.int8)


@pytest.fixture(autouse=True)
def _one_thread_afterwards() -> Iterator[None]:
    yield
    molspec.set_num_threads(1)


def operating_system_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", ["one token, one node", "two nodes", "narrow", "ragged", "more nodes than a chunk"]
)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_any_number_of_threads_gives_the_same_bits(
    convention: str, shape: str, dtype: torch.dtype
) -> None:
    batch = batch_of(convention, shape, dtype)
    expected = batch.run()
    for count in (2, 3, 8):
        molspec.set_num_threads(count)
        assert torch.equal(batch.run(), expected)


def test_workers_start_with_their_first_work() -> None:
    batch = batch_of("post-norm", "ragged", torch.float32)
    molspec.set_num_threads(8)
    batch.run()
    before = operating_system_threads()
    molspec.set_num_threads(20)  # more than in any other test
    assert operating_system_threads() == before
    batch.run()
    assert operating_system_threads() == before + 12


def test_callers_share_workers() -> None:
    batch = batch_of("post-norm", "ragged", torch.bfloat16)
    expected = batch.run()
    molspec.set_num_threads(3)
    batch.run()
    before = operating_system_threads()
    with ThreadPoolExecutor(4) as callers:
        found = list(callers.map(lambda _: batch.run(), range(40)))
    assert all(torch.equal(log_probs, expected) for log_probs in found)
    assert operating_system_threads() < before + 4  # no caller has two workers of its own


def test_a_forked_child_has_its_own_workers_and_the_kernels_of_its_parent() -> None:
    batch = batch_of("post-norm", "more nodes than a chunk", torch.int8)
    molspec.set_num_threads(2)
    expected = batch.run()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning about forking, which is tested here
        child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # its OpenMP does not survive a fork
        equal = molspec.get_num_threads() == 2 and torch.equal(batch.run(), expected)
        os._exit(0 if equal else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert torch.equal(batch.run(), expected)


def test_errors_on_threads_are_raised_by_the_call() -> None:
    batch = batch_of("post-norm", "more nodes than a chunk", torch.float32)
    expected = batch.run()
    nodes = [[0, position, position * (position + 1) // 2, 0] for position in range(40)]
    wrong = replace(
        batch,
        nodes=torch.tensor(nodes, dtype=torch.int32),
        path_slots=torch.zeros(820, dtype=torch.int32),
    )
    molspec.set_num_threads(3)
    refused(RuntimeError, "expected no slot twice", wrong.run)
    assert torch.equal(batch.run(), expected)


STARVED = """
import resource, signal
import molspec
from tests import tiny
expected = tiny.model().predict(["CCO"], max_length=20)
molspec.set_num_threads(64)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 2**26
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
assert tiny.model().predict(["CCO"], max_length=20) == expected
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
threads = next(line for line in open("/proc/self/status") if line.startswith("Threads"))
print(int(threads.split()[1]) < 64, signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


def test_predict_works_if_threads_cannot_start() -> None:
    process = subprocess.run(
        [sys.executable, "-c", STARVED], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["True", "set()"]


@pytest.mark.parametrize("count", [0, -1, 65, 10**30, 1.5, "2", True, None])
def test_thread_counts_out_of_range_are_refused(count: Any) -> None:
    refused(f"^threads is {count!r}: expected (a whole|at most 64)", molspec.set_num_threads, count)
    assert molspec.get_num_threads() == 1


def test_loading_keeps_to_its_thread_and_gives_the_others_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", changes.append)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    with on_one_torch_thread():
        assert changes == [1]
    assert changes == [1, 4]
    with pytest.raises(molspec.CheckpointError):
        molspec.load("absent")
    molspec.load("product")
    assert changes == [1, 4, 1, 4]
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    with on_one_torch_thread():
        assert changes == [1, 4, 1, 4]


def test_a_bar_of_stages_starts_no_thread() -> None:
    """Loading would not keep to its thread beside another."""
    script = """
import sys, threading
from molspec.common import console
sys.stderr.isatty = lambda: True
with console.stages(("one", "two")) as done:
    done()
    print(threading.active_count())
"""
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "one" in shown.stderr
    assert shown.stdout == "1\n"
