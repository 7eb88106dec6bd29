"""One stream of items on several processes, which share the memory of this process.

Workers are forked, so weights are in memory once. A template process, which does nothing else,
forks them, so that a worker can be replaced at any time, whatever threads this process has started
since. A worker gets items in pieces when it has room for them; results are in the order of the
items.
"""

import gc
import os
import signal
import socket
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from math import ceil
from multiprocessing.connection import Connection, Pipe, wait
from numbers import Integral
from pathlib import Path
from threading import Lock
from typing import Any, Generic, Literal, NoReturn, TypeVar

from molspec.common.items import Items

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
#: Makes results from items, in their order; a worker reads items when it has room for them.
Work = Callable[[Iterator[ItemT]], Iterable[ResultT]]

#: A number of processes, or "all": one for each core that may be used.
Processes = int | Literal["all"]

#: Error of an item whose workers died.
DIED = "the worker process died three times: it was killed, or memory was short"
#: Maximum deaths of workers with the same item alone, and of workers at their start between two
#: results.
_ATTEMPTS = 3
#: Maximum processes: more than a computer has cores.
MOST = 1024
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def usable_cores() -> int:
    """The cores that this process may use, by its affinity and its container's limit."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        quota, period = _CONTAINER_LIMIT.read_text().split()
        return max(1, min(cores, ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no such limit, or "max"
        return cores


def process_count(processes: Processes) -> int:
    """Number of worker processes. Raises ValueError if `processes` is not such a number."""
    if processes == "all":
        return usable_cores()
    if isinstance(processes, bool) or not isinstance(processes, Integral) or processes < 1:
        raise ValueError(f"processes is {processes!r}: expected at least 1, or 'all'")
    if processes > MOST:
        raise ValueError(f"processes is {processes}: expected at most {MOST}")
    return int(processes)


def in_processes(
    work: Work[ItemT, ResultT],
    items: Iterable[ItemT],
    count: int,
    failed: Callable[[ItemT], ResultT],
    *,
    piece: int = 8,
    ahead: int = 1024,
) -> Iterator[ResultT]:
    """Yield the result of every item, in their order, from `count` processes that each run `work`.

    A worker that dies is replaced and its items are repeated, each alone; an item with which three
    workers died so gets `failed(item)`. An error of `items` is raised after all earlier results, an
    error of `work` at once. All workers end with the generator.

    piece: items that a worker gets at a time.
    ahead: maximum items in progress after the first one without a result.

    Raises RuntimeError if workers die before their first item, OSError if none can be forked.
    """
    pool = _Pool(work, items, count, failed, piece, ahead)
    try:
        yield from pool.results()
    finally:
        pool.close()


@dataclass
class _Worker(Generic[ItemT]):
    """The state of a worker in this process."""

    connection: Connection
    #: Items without a result, by number.
    items: dict[int, ItemT] = field(default_factory=dict)
    has_started: bool = False
    has_room: bool = False
    #: Whether its item was a dead worker's, and must be its only one.
    is_alone: bool = False


class _Pool(Generic[ItemT, ResultT]):
    """Distributes items to workers and orders the results."""

    def __init__(
        self,
        work: Work[ItemT, ResultT],
        items: Iterable[ItemT],
        count: int,
        failed: Callable[[ItemT], ResultT],
        piece: int,
        ahead: int,
    ) -> None:
        self._failed, self._piece, self._ahead = failed, piece, ahead
        self._count, self._template = count, _Template(work)
        self._workers: list[_Worker[ItemT]] = []
        #: Readable if an item has arrived since it was read last.
        self._wakes, self._bell = Pipe(duplex=False)
        self._source = Items(items, ahead, self._ring)
        self._dealt = self._yielded = self._early_deaths = 0
        self._done: dict[int, ResultT] = {}
        #: Items of dead workers, and how many workers have died with each alone.
        self._again: deque[tuple[int, ItemT]] = deque()
        self._deaths: Counter[int] = Counter()

    def _ring(self) -> None:
        with suppress(OSError):  # the pool is closed
            self._bell.send_bytes(b"")

    def results(self) -> Iterator[ResultT]:
        for _ in range(self._count):
            self._workers.append(_Worker(self._template.start_worker()))
        while True:
            while self._yielded in self._done:
                yield self._done.pop(self._yielded)
                self._yielded += 1
            for worker in self._workers:
                self._deal(worker)
            if self._source.ended and self._yielded == self._dealt:
                break
            waited = {worker.connection: worker for worker in self._workers}
            for ready in wait([*waited, self._wakes]):
                if ready is self._wakes:
                    self._wakes.recv_bytes()
                else:
                    self._hear(waited[ready])  # type: ignore[index]
        if self._source.error is not None:
            raise self._source.error

    def _deal(self, worker: _Worker[ItemT]) -> None:
        """Give a worker its next items, if it has room and there are any."""
        if not worker.has_room or worker.is_alone or (self._again and worker.items):
            return
        rows: list[tuple[int, ItemT]] = []
        if self._again:
            worker.is_alone = True
            rows.append(self._again.popleft())
        else:
            room = min(self._piece, self._yielded + self._ahead - self._dealt)
            while len(rows) < room and (item := self._source.take()):
                rows.append((self._dealt, *item))
                self._dealt += 1
        if rows:
            worker.items.update(rows)
            worker.has_room = False
            with suppress(OSError):  # it is dead: its connection ends
                worker.connection.send(rows)

    def _hear(self, worker: _Worker[ItemT]) -> None:
        """Receive a worker's message: that it has room, a result, or an error of the work."""
        try:
            message = worker.connection.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return
        worker.has_started = True
        if isinstance(message, BaseException):
            raise message
        if message is None:
            worker.has_room = True
            return
        number, result = message
        del worker.items[number]
        worker.is_alone = False
        self._early_deaths = 0
        self._done[number] = result

    def _replace(self, worker: _Worker[ItemT]) -> None:
        """Queue its items again, and start another worker in its place."""
        worker.connection.close()
        if not worker.has_started:
            self._early_deaths += 1
            if self._early_deaths == _ATTEMPTS:
                raise RuntimeError(
                    f"{_ATTEMPTS} worker processes died at their start: expected them to live; "
                    "is there memory for another process?"
                )
        for number, item in worker.items.items():
            self._deaths[number] += worker.is_alone
            if self._deaths[number] < _ATTEMPTS:
                self._again.append((number, item))
            else:
                self._done[number] = self._failed(item)
        self._workers[self._workers.index(worker)] = _Worker(self._template.start_worker())

    def close(self) -> None:
        """End all workers."""
        self._source.close()
        self._wakes.close()
        for worker in self._workers:
            worker.connection.close()
        self._template.close()


def _check_alone() -> None:
    """Raise RuntimeError if Python has several interpreters, or greenlets in place of threads.

    A forked child waits for them.
    """
    for name in ("_interpreters", "_xxsubinterpreters"):  # from 3.13 on, before
        with suppress(ImportError):
            if (count := len(import_module(name).list_all())) > 1:
                raise RuntimeError(
                    f"{count} interpreters are in this process: expected one, since a process that "
                    "is forked beside others hangs; close them, or take processes 1"
                )
    if (patched := socket.socket.__module__.partition(".")[0]) in ("gevent", "eventlet"):
        raise RuntimeError(
            f"{patched} has patched this process: expected threads and sockets of Python, which "
            "worker processes need; take processes 1"
        )


class _Template(Generic[ItemT, ResultT]):
    """The process that forks workers. It leads a process group, apart from terminal signals."""

    def __init__(self, work: Work[ItemT, ResultT]) -> None:
        _check_alone()
        self._control, theirs = socket.socketpair()
        gc.collect()
        gc.freeze()  # a collection would write to every object, and so copy its page
        try:
            self._process = os.fork()
        except OSError:
            gc.unfreeze()
            raise
        if self._process == 0:
            self._control.close()
            _fork_workers(theirs, work)
        gc.unfreeze()
        theirs.close()

    def start_worker(self) -> Connection:
        """Fork a worker; return the connection to it."""
        ours, theirs = Pipe()
        with suppress(OSError):  # the template is dead, and the worker's connection ends
            socket.send_fds(self._control, [b"1"], [theirs.fileno()])
        theirs.close()
        return ours

    def close(self) -> None:
        """End the template, and with it all workers."""
        with suppress(OSError):  # it is dead
            # A process that was forked since then keeps the socket open, but not connected.
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        with suppress(ChildProcessError):  # the system has reaped it, if SIGCHLD is ignored
            os.waitpid(self._process, 0)


def _fork_workers(control: socket.socket, work: Work[Any, Any]) -> NoReturn:
    """Fork a worker for each received connection, until the first process closes or dies."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for workers
    if torch := sys.modules.get("torch"):  # its own threads are not forked: workers would wait
        torch.set_num_threads(1)
    try:
        while True:
            message, handles, _, _ = socket.recv_fds(control, 1, 1)
            if not message:
                break
            if os.fork() == 0:
                control.close()
                _run(Connection(handles[0]), work)
            os.close(handles[0])
    finally:
        os.killpg(0, signal.SIGKILL)
    raise AssertionError("expected the process group to be dead")


def _run(connection: Connection, work: Work[Any, Any]) -> NoReturn:
    """Work on received items until the connection ends."""
    lock = Lock()  # one thread reads items, another sends results
    numbers: deque[int] = deque()

    def send(message: object) -> None:
        with lock:
            connection.send(message)

    def items() -> Iterator[Any]:
        while True:
            send(None)
            for number, item in connection.recv():
                numbers.append(number)
                yield item

    try:
        for result in work(items()):
            send((numbers.popleft(), result))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the first process has closed the connection, or is dead
    except BaseException as error:
        try:
            send(error)
        except Exception:  # it cannot be pickled
            send(RuntimeError(repr(error)))
    finally:
        os._exit(0)
