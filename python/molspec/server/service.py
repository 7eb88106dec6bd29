"""Shared by all contracts of the server: models by name, limits, and streams of answers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from time import perf_counter
from typing import Annotated, Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator

from molspec.common.console import quoted
from molspec.common.task import Task
from molspec.files import Query, prepare_query
from molspec.planners.stock import Stock
from molspec.prediction.config import DecodeConfig
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import Result
from molspec.server.limits import Limits
from molspec.server.pending import Answered, PendingRequest, Targets
from molspec.server.worker import BusyError, Worker, is_stuck
from molspec.text import is_text

ItemT = TypeVar("ItemT")
MadeT = TypeVar("MadeT")


def _is_text(text: str) -> str:
    if not is_text(text):
        raise ValueError("no text: holds half a surrogate pair")
    return text


#: Text that an answer can quote.
Text = Annotated[str, AfterValidator(_is_text)]


class UnknownModelError(Exception):
    """No model of this name is served."""


@contextmanager
def refusing(*place: str | int) -> Iterator[None]:
    """Turn an error into a 422: the field at the message's beginning, and the message."""
    try:
        yield
    except (ValueError, UnknownModelError) as error:
        message = str(error)
        field = message.partition(" ")[0]
        where = place
        if field.isidentifier():
            if place == ("body",):
                where = (*place, field)
            else:
                message = f"{place[-1]}{message.removeprefix(field)}"
        wrong = {"type": "value_error", "loc": where, "msg": message}
        raise RequestValidationError([wrong]) from error


@dataclass(eq=False)
class Service:
    """The served models and the limits of requests."""

    workers: Mapping[str, Worker]
    limits: Limits
    #: Molecules for sale, for the page and for plans.
    stock: Stock | None = None
    #: Runs RDKit's work piece by piece, so that neither the event loop nor a short request waits
    #: for a long one. RDKit holds Python's lock: more threads would not be faster.
    texts: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="molspec texts")
    )
    #: Held for each piece. The next piece waits in the event loop, not in the thread, which would
    #: take Python's lock whenever the loop reads or writes.
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: The time since which a piece is computed, and the items of requests not accepted yet.
    _since: float | None = None
    _early: int = 0

    async def in_pieces(
        self, function: Callable[[ItemT], MadeT], items: Sequence[ItemT], size: int = 1
    ) -> list[MadeT]:
        """The function of every item, computed outside the event loop, `size` items at a time."""
        loop = asyncio.get_running_loop()
        made: list[MadeT] = []
        for start in range(0, len(items), size):
            piece = items[start : start + size]
            async with self._turn:
                self._since = perf_counter()
                try:
                    made += await loop.run_in_executor(self.texts, list, map(function, piece))
                finally:
                    self._since = None
        return made

    async def early(
        self, function: Callable[[ItemT], MadeT], items: Sequence[ItemT]
    ) -> list[MadeT]:
        """`in_pieces` for a request before it is accepted. Raises BusyError if too many wait."""
        if self._early and self._early + len(items) > self.limits.waiting:
            raise BusyError(1)
        self._early += len(items)
        try:
            return await self.in_pieces(function, items)
        finally:
            self._early -= len(items)

    @property
    def plans(self) -> bool:
        """Whether `/v1/plan` can answer."""
        has_retro = any(each.model.task == "retro" for each in self.workers.values())
        return self.stock is not None and has_retro and find_spec("syntheseus") is not None

    def readiness(self) -> dict[str, bool]:
        """Whether each model answers."""
        reads = not is_stuck(self._since)
        return {name: reads and worker.is_ready for name, worker in self.workers.items()}

    def worker(self, name: str) -> Worker:
        """The model of a name. Raises UnknownModelError."""
        if name not in self.workers:
            raise UnknownModelError(
                f"model is {quoted(name)}: expected one of {', '.join(self.workers)}"
            )
        return self.workers[name]

    def default(self, task: Task) -> Worker:
        """The first model of a task, or the first model if none has that task."""
        workers = list(self.workers.values())
        return next((each for each in workers if each.model.task == task), workers[0])

    async def prepared(
        self,
        request: Request,
        worker: Worker,
        queries: Sequence[str],
        keep_salts: bool = False,
        seconds: float | None = None,
        deuterium_as_hydrogen: bool = False,
    ) -> list[Query]:
        """What is decoded for each query, as of a racemate, or of a salt for reactants."""
        main = worker.model.task == "retro" and not keep_salts
        hydrogen = deuterium_as_hydrogen and worker.model.lacks_deuterium
        limit = self._limit(seconds)

        def prepare(query: str) -> Query:
            """After the time limit, the query itself, as it gets no answer."""
            in_time = perf_counter() - arrival(request) < limit
            return prepare_query(Query(query), main and in_time, hydrogen and in_time)

        signs = ["|", *["."] * main, *["[2H"] * hydrogen]
        if any(sign in query for query in queries for sign in signs):
            return await self.early(prepare, queries)
        return [Query(query) for query in queries]

    def _limit(self, seconds: float | None) -> float:
        """The time of a request that may say one."""
        return min(seconds or self.limits.seconds, self.limits.seconds)

    def config(self, worker: Worker, raw: bool = True, **values: Any) -> DecodeConfig:
        """The options of a request; unless `raw`, for different molecules only.

        Raises ValueError, naming the option, if it is invalid or beyond a limit.
        """
        options = PredictOptions(**values)
        if not raw:
            options = options.distinct()
        if "max_beam_factor" not in values:
            options = options.within(self.limits.beam_size)
        self.limits.check(options)
        return worker.model.decode_config(options)

    def submit(
        self,
        request: Request,
        worker: Worker,
        queries: Sequence[str],
        config: DecodeConfig,
        targets: Targets | None = None,
        seconds: float | None = None,
    ) -> AsyncIterator[Answered]:
        """Accept a request and yield its results, until the client leaves or the time is up.

        The time counts from the arrival of the request. A request counts as at most
        `limits.queries` towards `limits.waiting`, however many spellings it has.

        Raises BusyError or StoppedError if it cannot be accepted; the iterator raises
        WithdrawnError if the client leaves.
        """
        pending = PendingRequest(queries, config, targets, self.limits.queries)
        worker.submit(pending)
        return _answers(request, worker, pending, self._limit(seconds))

    async def for_planners(
        self,
        request: Request,
        worker: Worker,
        queries: Sequence[str],
        config: DecodeConfig,
        answers: str,
        scores: str,
    ) -> list[dict[str, Any]]:
        """Answers in the model's spelling and their log-probs, by these names; a note and an error.

        Without unfinished answers, which planners cannot use.
        """
        prepared = await self.prepared(request, worker, queries)
        decoded = [each.decoded for each in prepared]
        results = await in_order(self.submit(request, worker, decoded, config))
        items = []
        for query, result in zip(prepared, results, strict=True):
            finished = [prediction for prediction in result.predictions if prediction.finished]
            further = {"note": query.note, "error": query.error or result.error}
            items.append(
                {
                    answers: [prediction.smiles for prediction in finished],
                    scores: [prediction.log_prob for prediction in finished],
                    **{name: text for name, text in further.items() if text},
                }
            )
        return items


async def _answers(
    request: Request, worker: Worker, pending: PendingRequest, seconds: float
) -> AsyncIterator[Answered]:
    gone = asyncio.create_task(_withdraw_if_gone(request, worker, pending))
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


def arrival(request: Request) -> float:
    """The time of the request's arrival, by `perf_counter`."""
    came: float = request.scope["molspec.arrival"]
    return came


async def _withdraw_if_gone(request: Request, worker: Worker, pending: PendingRequest) -> None:
    """Wait until the client, whose body has been read, closes the connection; then withdraw."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    worker.withdraw(pending)
