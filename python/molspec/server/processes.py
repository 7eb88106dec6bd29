"""Serves in several processes, which are forked from one that has loaded the models."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from multiprocessing.synchronize import Event
from shutil import rmtree
from threading import Thread
from typing import NamedTuple

import torch
from prometheus_client.multiprocess import mark_process_dead

from molspec.common.console import UsageError, one_line_errors, print_err
from molspec.server import metrics
from molspec.server.serving import ServerSettings, Tell, serve

#: Seconds between looks at the processes, and before one that ended is replaced: the first time,
#: and at most, because the pause doubles while processes end before they listen.
_LOOK = 0.2
_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
#: Processes that may end before any has listened; then no more are started.
_MOST_FAILURES = 3
_STOPS = (signal.SIGTERM, signal.SIGINT)


def run_many(settings: ServerSettings, taken: socket.socket, count: int, tell: Tell) -> None:
    """Serve in `count` processes that take requests from one port, until SIGTERM or SIGINT.

    They are forked from this process, which has read the models and does not use them: so all have
    the same models, whatever becomes of the files, and share their memory. One that ends is
    replaced. All end when this process ends, for any reason.

    Raises ValueError if a model is broken or not on the CPU, and UsageError if several processes
    end before any has listened.
    """
    start = settings.load(count)
    gc.collect()
    gc.freeze()  # a collection would write to every object, and so copy its page
    with tempfile.TemporaryDirectory(prefix="molspec-") as folder:
        metrics.add_up(folder)
        stopping: list[int] = []
        defaults = {
            number: signal.signal(number, lambda received, _: stopping.append(received))
            for number in _STOPS
        }
        alive, held = os.pipe()

        def serve_beside(listens: Event) -> None:
            def listening(url: str) -> None:
                listens.set()
                tell(url)

            os.close(held)
            for number, default in defaults.items():
                signal.signal(number, default)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
            Thread(target=_leave_with_parent, args=(alive, folder), daemon=True).start()
            torch.set_num_threads(1)  # torch's own threads are not forked
            with one_line_errors():
                serve(settings, taken, listening, start)

        group = _Group(serve_beside, count)
        try:
            while not stopping:
                group.look()
                time.sleep(_LOOK)
        finally:
            taken.close()
            group.end()


def _leave_with_parent(alive: int, folder: str) -> None:
    """Stop this process when the parent, which alone holds the pipe's other end, has ended.

    A killed parent has left its folder.
    """
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    rmtree(folder, ignore_errors=True)


class _Process(NamedTuple):
    """One of several serving processes, and whether it listens."""

    process: ForkProcess
    listens: Event

    @classmethod
    def fork(cls, serve: Callable[[Event], None]) -> _Process:
        """Raises OSError if the system has no memory or number for another process."""
        context = multiprocessing.get_context("fork")
        listens = context.Event()
        process = context.Process(target=serve, args=(listens,))
        # Until the child has its own handlers: the parent's would take a signal and do nothing.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        return cls(process, listens)


class _Group:
    """The processes of a server. One that ends is replaced after a pause."""

    def __init__(self, serve: Callable[[Event], None], count: int) -> None:
        self._serve = serve
        self._count = count
        self._processes: list[_Process] = []
        self._has_listened = False
        self._failures = 0
        #: The current pause, and when it ends.
        self._pause = self._resumes = 0.0

    def look(self) -> None:
        """Replace the processes that have ended; after a pause, which others do not wait for.

        Raises UsageError if several have ended, and none has ever listened.
        """
        for each in [*self._processes]:
            has_listened = each.listens.is_set()
            self._has_listened |= has_listened
            if not each.process.is_alive():
                self._processes.remove(each)
                mark_process_dead(each.process.pid)  # removes its gauges: it has no queries
                self._lost(f"ended with status {each.process.exitcode}", has_listened)
        while len(self._processes) < self._count and time.monotonic() >= self._resumes:
            try:
                self._processes.append(_Process.fork(self._serve))
            except OSError as error:
                self._lost(f"cannot be started: {error.strerror}", False)

    def _lost(self, how: str, has_listened: bool) -> None:
        self._failures += not has_listened
        if self._failures >= _MOST_FAILURES and not self._has_listened:
            raise UsageError(
                f"{self._failures} processes ended before any listened; the last one {how}"
            )
        if time.monotonic() >= self._resumes:  # once for those that end together
            self._pause = min(max(_PAUSE, 0 if has_listened else 2 * self._pause), _LONGEST_PAUSE)
            self._resumes = time.monotonic() + self._pause
        print_err(f"a process of the server {how}; another one is started in {self._pause:g} s")

    def end(self) -> None:
        """Stop the processes, and wait until they have answered the accepted queries."""
        for process, _ in self._processes:
            process.terminate()
        for process, _ in self._processes:
            process.join()
