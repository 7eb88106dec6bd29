"""The worker of a model: a thread that steps a decoder; requests join and leave between steps."""

import logging
import math
import os
from collections.abc import Collection
from threading import Condition, Thread
from time import perf_counter
from typing import Any

from molspec.engine.devices import is_lost
from molspec.prediction.decoder import Decoder
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from molspec.prediction.strategy import hypotheses_together
from molspec.server import metrics
from molspec.server.fair_scheduler import FairScheduler
from molspec.server.pending import Answered, PendingRequest, WithdrawnError

_log = logging.getLogger("molspec.server")
#: The weight of the last query in the mean time of a query; and the maximum of Retry-After, in
#: seconds.
_SHARE_OF_LAST = 0.1
_LONGEST_RETRY = 60
#: Seconds after which a step that still runs is stuck.
_LONGEST_WORK = 10.0
#: The status of a process whose device is lost: it may be started again.
DEVICE_LOST = 3
#: The usual options: their graphs are captured before the first request.
_USUAL = tuple(PredictOptions(n_best=n_best) for n_best in (1, 5, 10))


def is_stuck(since: float | None) -> bool:
    """Whether work that began then takes so long that others should not wait for it."""
    return since is not None and perf_counter() - since > _LONGEST_WORK


class BusyError(Exception):
    """Too many queries, or others, are waiting; there may be room after `retry_after` seconds."""

    def __init__(self, retry_after: int, what: str = "queries") -> None:
        super().__init__(f"too many {what} are waiting: come again in {retry_after} s")
        self.retry_after = retry_after


class EngineError(Exception):
    """The engine failed at a step; later requests are answered."""

    def __init__(self) -> None:
        super().__init__("the engine failed at a step: see the server's log")


class StoppedError(Exception):
    """The worker accepts no more requests; another server may after `retry_after` seconds."""

    retry_after = 5


def warm_up(decoder: Decoder, max_positions: int) -> None:
    """Decode batches of every size, so that a device's graphs are captured before any request.

    The largest batch is first, and twice: a buffer that grows invalidates all graphs.
    """
    most = decoder.batch_size
    # Steps have powers of two of nodes, so batches between two of these need no other graph.
    sizes = [most, *(1 << k for k in reversed(range(most.bit_length())) if 1 << k < most)]
    rounds = [
        (options, "C" * (max_positions - 2), n) for n in (sizes[0], *sizes) for options in _USUAL
    ]
    # A single query is encoded by the graph of its length.
    lengths = (max_positions >> k for k in range(2, max_positions.bit_length()))
    rounds += [(options, "C" * n, 1) for n in lengths for options in _USUAL]
    for options, query, count in rounds:
        tickets = {decoder.submit(query, options) for _ in range(count)}
        tickets -= {ticket for ticket, _ in decoder.step()}
        for ticket in tickets:
            decoder.cancel(ticket)


class Worker:
    """Answers requests with one model, all in one running batch.

    `submit` and `withdraw` never wait for a step. Between steps the thread drops withdrawn
    requests, then adds queries by their turns; without work it sleeps.

    batch_size: spellings of queries that are decoded together.
    most_waiting: maximum unanswered queries, as requests count them.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        batch_size: int = PredictOptions.batch_size,
        most_waiting: int = 1024,
    ) -> None:
        self.name = name
        self.model = model
        self._most_waiting = most_waiting
        self._decoder = Decoder(model, batch_size)
        if model.device != "cpu":
            warm_up(self._decoder, model.reader.spec.max_positions)
        #: The request and query of each ticket of the decoder. Used by the thread only.
        self._live: dict[int, tuple[PendingRequest, int]] = {}
        self._scheduler = FairScheduler(batch_size, hypotheses_together(model.device))
        self._withdrawn: list[PendingRequest] = []
        self._stopping = False
        self._changed = Condition()
        #: The mean time of a query, and the time since which none has been answered.
        self._seconds_a_query = 0.01
        self._since = perf_counter()
        #: The time at which the step that runs began; None between steps.
        self._began: float | None = None
        self._counters = metrics.ModelCounters(name)
        self._thread = Thread(target=self._work, daemon=True, name=f"molspec {name}")
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether requests are answered."""
        return self._thread.is_alive() and not self._stopping

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered soon: no step is stuck."""
        return self.is_alive and not is_stuck(self._began)

    @property
    def unanswered_count(self) -> int:
        """The number of unanswered queries."""
        return self._scheduler.waiting_count + len(self._live)

    def submit(self, pending: PendingRequest) -> None:
        """Accept a request. Raises BusyError or StoppedError if it cannot be."""
        with self._changed:
            if not self.is_alive:
                raise StoppedError("the server is stopping")
            if self._scheduler.counted + pending.counted > self._most_waiting:
                seconds = math.ceil(self.unanswered_count * self._seconds_a_query)
                raise BusyError(min(max(1, seconds), _LONGEST_RETRY))
            self._scheduler.add(pending)
            self._counters.accepted.inc(pending.count)
            self._counters.unanswered.inc(pending.count)
            self._changed.notify()

    def withdraw(self, pending: PendingRequest) -> None:
        """Drop the unanswered queries of a request, and free their rows at the next step."""
        with self._changed:
            self._withdrawn.append(pending)
            self._changed.notify()

    def stop(self) -> None:
        """Accept no more requests, answer the accepted ones, and end the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while self._has_work():
            try:
                self._cancel_withdrawn()
                self._admit()
                if self._live:
                    self._step()
            except Exception as error:
                if is_lost(self.model.device):
                    text = str(error).partition("\n")[0]
                    _log.critical("the device %s is lost: %s; start again", self.model.device, text)
                    os._exit(DEVICE_LOST)  # threads that wait for the device would never end
                _log.exception("the engine of %s failed; it begins anew", self.name)
                self._restart()

    def _has_work(self) -> bool:
        """Sleep until there is work. Returns False if there will be none."""
        with self._changed:
            self._began = None
            while not (self._live or self._withdrawn or self._scheduler.waiting_count):
                if self._stopping:
                    return False
                self._changed.wait()
                self._since = perf_counter()
            self._began = perf_counter()
        return True

    def _cancel_withdrawn(self) -> None:
        if not self._withdrawn:
            return
        with self._changed:
            withdrawn, self._withdrawn = self._withdrawn, []
        for ticket in self._fail(withdrawn, WithdrawnError()):
            self._decoder.cancel(ticket)

    def _fail(self, requests: Collection[PendingRequest], error: Exception) -> list[int]:
        """Fail the unanswered queries of requests. Returns the tickets in progress."""
        tickets = [ticket for ticket, (pending, _) in self._live.items() if pending in requests]
        for ticket in tickets:
            self._remove(ticket)
        with self._changed:
            count = sum(self._scheduler.remove(pending) for pending in requests)
        self._counters.let_go(count + len(tickets))
        for pending in requests:
            pending.deliver(error)
        return tickets

    def _admit(self) -> None:
        while self._scheduler.waiting_count:
            with self._changed:
                turn = self._scheduler.take()
            if turn is None:
                return
            pending, index = turn
            query, given = pending.queries[index], pending.targets
            scored: dict[str, Any] = (
                {"target": given.texts[index], "aligned": given.aligned} if given else {}
            )
            try:
                ticket = self._decoder.submit(query, pending.config, **scored)
            except ValueError as error:  # of the options: the same for its other queries
                self._refuse(pending, error)
                continue
            except Exception:
                self._refuse(pending, EngineError())
                if is_lost(self.model.device):
                    raise
                _log.exception("a query of %s cannot be submitted", self.name)
                continue
            self._live[ticket] = pending, index

    def _refuse(self, pending: PendingRequest, error: Exception) -> None:
        with self._changed:
            self._scheduler.done(pending)
            self._counters.let_go(1 + self._scheduler.remove(pending))
        pending.deliver(error)

    def _step(self) -> None:
        done = self._decoder.step()
        if done:
            now = perf_counter()
            seconds, self._since = (now - self._since) / len(done), now
            self._seconds_a_query += _SHARE_OF_LAST * (seconds - self._seconds_a_query)
        answers: dict[PendingRequest, list[Answered]] = {}
        for ticket, result in done:
            pending, index = self._remove(ticket)
            answers.setdefault(pending, []).append((index, result))
            self._counters.count(result)
        for pending, answered in answers.items():
            pending.deliver(answered)

    def _remove(self, ticket: int) -> tuple[PendingRequest, int]:
        pending, index = self._live.pop(ticket)
        with self._changed:
            self._scheduler.done(pending)
        return pending, index

    def _restart(self) -> None:
        """Fail all queries in progress: the decoder's state may be invalid."""
        self._fail({pending for pending, _ in self._live.values()}, EngineError())
        self._decoder = Decoder(self.model, self._decoder.batch_size)
