"""Items on several processes: their order, their errors, and workers that die."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from molspec.common import workers
from molspec.common.workers import in_processes, process_count, usable_cores
from tests import refused, waiting


def squares(items: Iterator[int]) -> Iterator[int]:
    return (item * item for item in items)


def lost(item: int) -> int:
    return -item


@pytest.mark.parametrize("patching", ["gevent", "eventlet"])
def test_workers_without_pythons_own_sockets_are_refused(
    monkeypatch: pytest.MonkeyPatch, patching: str
) -> None:
    monkeypatch.setattr(socket, "socket", type("socket", (), {"__module__": f"{patching}.socket"}))
    with pytest.raises(RuntimeError, match=f"^{patching} has patched this process: "):
        next(in_processes(lambda items: items, [1], 2, lambda item: item))


def test_workers_beside_another_interpreter_are_refused() -> None:
    """CPython's fork waits there for the other interpreter, in the child, forever."""
    script = """
from contextlib import suppress
from importlib import import_module
from molspec.common.workers import in_processes
for name in ("_interpreters", "_xxsubinterpreters"):
    with suppress(ImportError):
        python = import_module(name)
first = list(in_processes(lambda items: items, [1, 2], 2, None))
other = python.create()
with suppress(RuntimeError):
    print(list(in_processes(lambda items: items, [1, 2], 2, None)))
python.destroy(other)
assert list(in_processes(lambda items: items, [1, 2], 2, None)) == first
print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "refused\n"


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 7, 500])
def test_results_come_in_the_order_of_the_items(count: int, size: int) -> None:
    found = list(in_processes(squares, range(size), count, lost, piece=3, ahead=20))
    assert found == [item * item for item in range(size)]


def test_work_is_shared_by_two_other_processes(tmp_path: Path) -> None:
    def process_ids(items: Iterator[int]) -> Iterator[int]:
        for _ in items:
            (tmp_path / str(os.getpid())).touch()
            waiting.until(lambda: len(list(tmp_path.iterdir())) >= 2)  # the other process has begun
            yield os.getpid()

    found = set(in_processes(process_ids, range(40), 2, lost, piece=1))
    assert len(found) == 2
    assert os.getpid() not in found


def test_closing_a_stream_ends_its_workers() -> None:
    def process_ids(items: Iterator[int]) -> Iterator[int]:
        return (os.getpid() for _ in items)

    stream = in_processes(process_ids, iter(range(10_000)), 2, lost)
    workers = {next(stream) for _ in range(100)}
    stream.close()  # before its end
    waiting.until(lambda: all(_state(process) == "Z" for process in workers))


def test_streams_that_overlap_end_apart() -> None:
    first, second = (in_processes(squares, range(5), 1, lost) for _ in range(2))
    assert [*zip(first, second, strict=True)] == [(item * item, item * item) for item in range(5)]


def _state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def killed_at(folder: Path, deaths: Mapping[int, int]) -> Callable[[Iterator[int]], Iterator[int]]:
    """Squares items; at some of them the process is killed, so many times. A file counts them."""

    def work(items: Iterator[int]) -> Iterator[int]:
        for item in items:
            if item in deaths:
                with (folder / str(item)).open("a") as log:
                    log.write("x")
                if (folder / str(item)).stat().st_size <= deaths[item]:
                    os.kill(os.getpid(), signal.SIGKILL)
            yield item * item

    return work


def test_dead_worker_is_replaced_and_no_result_is_lost_or_repeated(tmp_path: Path) -> None:
    fragile = killed_at(tmp_path, dict.fromkeys(range(0, 340, 17), 1))
    found = list(in_processes(fragile, range(340), 3, lost, piece=5))
    assert found == [item * item for item in range(340)]
    assert len(list(tmp_path.iterdir())) == 20


def test_an_item_that_kills_its_worker_fails_alone(tmp_path: Path) -> None:
    deadly = killed_at(tmp_path, {13: 9, 14: 9})
    found = list(in_processes(deadly, range(40), 2, lost, piece=8))
    assert found == [-item if item in (13, 14) else item * item for item in range(40)]
    assert (tmp_path / "13").read_text() == "xxxx"  # once among others


def test_a_death_counts_for_an_item_that_is_alone(tmp_path: Path) -> None:
    """Item 6 is behind 1, which kills its worker, and is then killed twice from elsewhere."""
    found = list(in_processes(killed_at(tmp_path, {1: 9, 6: 2}), range(1, 9), 1, lost, piece=8))
    assert found == [-1, *(item * item for item in range(2, 9))]


def test_workers_that_die_at_once_end_the_stream() -> None:
    def exit_at_start(items: Iterator[int]) -> Iterator[int]:
        os._exit(1)
        yield from items

    with pytest.raises(RuntimeError, match="3 worker processes died at their start"):
        list(in_processes(exit_at_start, range(4), 2, lost))


def test_a_stream_that_gets_no_workers_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    forked: list[int] = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: forked.append(fork()) or forked[-1])
    monkeypatch.setattr(workers._Template, "start_worker", refuse)
    refused(OSError, "Too many open files", list, in_processes(squares, range(4), 2, lost))
    with pytest.raises(ChildProcessError):
        os.waitpid(forked[0], os.WNOHANG)


def test_error_of_the_items_follows_the_results_before_it() -> None:
    def broken() -> Iterator[int]:
        yield from range(5)
        raise ValueError("line 6 is not text")

    stream = in_processes(squares, broken(), 2, lost)
    assert [next(stream) for _ in range(5)] == [0, 1, 4, 9, 16]
    refused("line 6 is not text", next, stream)


def test_error_in_a_worker_is_raised_in_this_process() -> None:
    class UnsendableError(Exception):
        pass

    def failing(items: Iterator[int]) -> Iterator[int]:
        for item in items:
            if item == 3:
                raise ValueError("item 3")
            if item == 30:
                raise UnsendableError("item 30")
            yield item

    refused("item 3", list, in_processes(failing, [1, 2, 3], 2, lost))
    refused(RuntimeError, "UnsendableError.*item 30", list, in_processes(failing, [30], 2, lost))


def test_results_do_not_wait_for_slow_items() -> None:
    answered: list[int] = []

    def slow() -> Iterator[int]:
        yield 1
        waiting.until(lambda: answered)
        yield 2

    for result in in_processes(squares, slow(), 2, lost):
        answered.append(result)
    assert answered == [1, 4]


def test_item_with_slow_work_does_not_delay_the_others(tmp_path: Path) -> None:
    def uneven(items: Iterator[int]) -> Iterator[int]:
        for item in items:
            if item == 0:
                waiting.until((tmp_path / "99").exists)
            (tmp_path / str(item)).touch()
            yield item

    assert list(in_processes(uneven, range(100), 2, lost, piece=1)) == list(range(100))


def test_number_of_items_read_ahead_is_bounded() -> None:
    read: list[int] = []

    def counted() -> Iterator[int]:
        for item in range(10_000):
            read.append(item)
            yield item

    stream = in_processes(squares, counted(), 2, lost, piece=4, ahead=16)
    next(stream)
    time.sleep(0.05)
    assert len(read) <= 2 * 16 + 2
    stream.close()


def test_process_count_follows_the_usable_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert process_count(3) == process_count(np.int64(3)) == 3
    assert process_count("all") == usable_cores() >= 1
    for wrong in (0, -1, True, 1.5, "many"):
        refused("processes is .*: expected at least 1, or 'all'", process_count, wrong)
    refused("processes is 1025: expected at most 1024", process_count, 1025)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for limit, cores in (("max 100000", 8), ("150000 100000", 2), ("10000 100000", 1)):
        (tmp_path / "cpu.max").write_text(limit)
        monkeypatch.setattr(workers, "_CONTAINER_LIMIT", tmp_path / "cpu.max")
        assert usable_cores() == cores


def test_results_are_given_where_child_processes_are_ignored() -> None:
    """As a supervisor may have set it."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert list(in_processes(squares, range(4), 2, lost)) == [0, 1, 4, 9]
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("threads", ["1", "4"])
def test_workers_use_torch_whose_threads_ran_before_the_fork(threads: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    command = [sys.executable, "-m", "tests.forked"]
    assert subprocess.run(command, env=environment, timeout=200, check=False).returncode == 0
