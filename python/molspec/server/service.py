"""What all contracts of the server share: models by name, limits, and answers as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from time import perf_counter
from typing import Annotated, Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator

from molspec.options import PredictOptions
from molspec.predictor import Model
from molspec.results import Result
from molspec.server.limits import Limits
from molspec.server.pending import Answered, PendingRequest
from molspec.server.worker import Worker
from molspec.task import Task
from molspec.text import is_text

ItemT = TypeVar("ItemT")
MadeT = TypeVar("MadeT")


def _is_text(text: str) -> str:
    if not is_text(text):
        raise ValueError("no text: holds half a surrogate pair")
    return text


#: Text that an answer can repeat.
Text = Annotated[str, AfterValidator(_is_text)]


class UnknownModelError(Exception):
    """No model of this name is served."""


@contextmanager
def refusing(*place: str | int) -> Iterator[None]:
    """Answer what is wrong by a 422: the field that the message begins with, and the message."""
    try:
        yield
    except (ValueError, UnknownModelError) as error:
        message = str(error)
        field = message.partition(" ")[0]
        where = (*place, field) if field.isidentifier() and place == ("body",) else place
        wrong = {"type": "value_error", "loc": where, "msg": message}
        raise RequestValidationError([wrong]) from error


@lru_cache(maxsize=64)
def _options(model: Model, limits: Limits, **values: Any) -> PredictOptions:
    """One object for equal values, checked once: a decoder keeps its search by it."""
    options = PredictOptions(**values)
    limits.check(options)
    model.resolved(options)
    return options


@dataclass(frozen=True)
class Service:
    """Models that answer, and what a request may ask of them."""

    workers: Mapping[str, Worker]
    limits: Limits
    #: Runs what RDKit does, piece by piece, so that neither the event loop nor a short request
    #: waits for a long one. RDKit holds Python's lock: more threads would be no faster.
    texts: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="molspec texts")
    )
    #: Held for each piece. The next one waits for the event loop, not in the thread, which would
    #: take Python's lock again whenever the loop reads or writes.
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def in_pieces(
        self, function: Callable[[ItemT], MadeT], items: Sequence[ItemT], size: int = 1
    ) -> list[MadeT]:
        """The function of every item, worked out beside the event loop, `size` items at a time."""
        loop = asyncio.get_running_loop()
        made: list[MadeT] = []
        for start in range(0, len(items), size):
            piece = items[start : start + size]
            async with self._turn:
                made += await loop.run_in_executor(self.texts, list, map(function, piece))
        return made

    def worker(self, name: str) -> Worker:
        """The model of a name, as given at the start. Raises UnknownModelError."""
        if name not in self.workers:
            raise UnknownModelError(f"model is {name!r}: expected one of {', '.join(self.workers)}")
        return self.workers[name]

    def default(self, task: Task) -> Worker:
        """The first model of a task, or the first one at all where none says that it is."""
        workers = list(self.workers.values())
        return next((each for each in workers if each.model.task == task), workers[0])

    def options(self, worker: Worker, queries: Sequence[str], **values: Any) -> PredictOptions:
        """Raise ValueError, naming the option, for what makes no sense or is beyond a limit."""
        self.limits.check_count(queries)
        return _options(worker.model, self.limits, **values)

    def submit(
        self,
        request: Request,
        worker: Worker,
        queries: Sequence[str],
        options: PredictOptions,
        targets: Sequence[str] | None = None,
        seconds: float | None = None,
    ) -> AsyncIterator[Answered]:
        """Accept a request. Its results come as they are done, until the client or time is gone.

        The time is that since the request came: what was done before counts. A request counts as
        at most `limits.queries` towards `limits.waiting`, however many spellings it has.

        Raises BusyError or StoppedError if it cannot be accepted; what is returned raises
        WithdrawnError if the client goes away.
        """
        pending = PendingRequest(queries, options, targets, self.limits.queries)
        worker.submit(pending)
        limit = self.limits.seconds if seconds is None else min(seconds, self.limits.seconds)
        return _answers(request, worker, pending, limit)


async def _answers(
    request: Request, worker: Worker, pending: PendingRequest, seconds: float
) -> AsyncIterator[Answered]:
    gone = asyncio.create_task(_client_gone(request))

    def let_go(task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            worker.withdraw(pending)

    gone.add_done_callback(let_go)
    try:
        async for answered in pending.answers(seconds, perf_counter() - arrival(request)):
            yield answered
    finally:
        gone.cancel()
        if len(pending.answered) < pending.count:
            worker.withdraw(pending)


async def in_order(answers: AsyncIterator[Answered]) -> list[Result]:
    """All results, in the order of the queries. Raises what `answers` raises."""
    results = {index: result async for index, result in answers}
    return [results[index] for index in sorted(results)]


def finished_answers(result: Result, answers: str, scores: str) -> dict[str, Any]:
    """Answers as written and their log-probs, by these names, and the error where there is one.

    Without those that were cut off, which are no answers to a planner.
    """
    finished = [prediction for prediction in result.predictions if prediction.finished]
    item: dict[str, Any] = {
        answers: [prediction.smiles for prediction in finished],
        scores: [prediction.log_prob for prediction in finished],
    }
    return item if result.error is None else {**item, "error": result.error}


def arrival(request: Request) -> float:
    """When the request came, by `perf_counter`."""
    came: float = request.scope["molspec.arrival"]
    return came


async def _client_gone(request: Request) -> None:
    """Wait until the client closes the connection; its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
