"""Schedules requests, from `submit` to the answer, in the rows of one running batch."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import wraps
from itertools import count
from threading import Lock, RLock
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

import torch

from molspec._native import Decoded, ForcedSpec, GuessModel
from molspec.decoding.drafter import wants_hidden_states
from molspec.decoding.round import HostExecutor
from molspec.decoding.statistics import Statistics, Stopwatch
from molspec.engine.session import Executor, Session, Source, Strategy

AnswerT = TypeVar("AnswerT")
_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")
#: Tokens of given targets that a step evaluates for requests that have more of them than one pass:
#: 160,000 of all spellings of a molecule would make the others wait for seconds.
_MOST_GIVEN = 4096

#: What is decoded for a query: yields sources, at least one, with their search, gets the result of
#: each, and returns the answer. Raises ValueError if the query is unreadable.
Work: TypeAlias = Generator[tuple[Sequence[Source], Strategy], Sequence[Decoded], AnswerT]


class Request(Generic[AnswerT]):
    """A query from `submit` to its answer.

    strategy: of the first part of its work, which is not taken before a row is free.
    failed: the answer to a query that cannot be read or decoded.
    """

    #: The ticket of its answer; above 0 once it is submitted.
    ticket: int = 0

    def __init__(
        self, strategy: Strategy, work: Work[AnswerT], failed: Callable[[Exception], AnswerT]
    ) -> None:
        self.strategy, self._work, self.failed = strategy, work, failed
        #: Its sources, each of which needs a row of the batch, and how many have one.
        self.sources: Sequence[Source] = ()
        self.begun = 0
        #: For each of its rows the index in sources; and by that index the result.
        self.rows: dict[int, int] = {}
        self.found: dict[int, Decoded] = {}

    def advance(self) -> None:
        """Take the first part, or give the results of all sources and take the next one.

        Raises StopIteration with the answer as its value.
        """
        found = [self.found[index] for index in range(len(self.sources))]
        self.sources, self.strategy = self._work.send(found) if found else next(self._work)
        self.begun, self.found = 0, {}


def source_request(source: Source, strategy: Strategy) -> Request[Decoded]:
    """A request of token ids, for callers that end with the first error."""

    def work() -> Work[Decoded]:
        (found,) = yield [source], strategy
        return found

    def failed(error: Exception) -> Decoded:
        raise error

    return Request(strategy, work(), failed)


def _whole(
    change: Callable[Concatenate[Any, _Given], _Made],
) -> Callable[Concatenate[Any, _Given], _Made]:
    """A change that leaves the scheduler spent if it does not come to its end."""

    @wraps(change)
    def changed(self: Any, /, *given: _Given.args, **named: _Given.kwargs) -> _Made:
        self.check_whole()
        try:
            return change(self, *given, **named)
        except BaseException:
            self._is_spent = True
            raise

    return changed


class Scheduler(Generic[AnswerT]):
    """Gives the rows of a batch to requests, in their order, and steps the batch.

    A request is read when a row is free, and leaves with its answer as soon as it is done; the next
    one takes its rows. The hypotheses of a source do not depend on other sources, and a request
    that fails ends alone.

    Threads may share a scheduler. `add` never waits for a step; the other methods wait for the step
    that runs. One step runs at a time.

    What an exception ends half-way, such as Ctrl-C, is spent: each method then raises RuntimeError.

    statistics: sums over the answered requests.
    """

    def __init__(
        self,
        session: Session,
        guess: GuessModel,
        batch_size: int,
        statistics: Statistics | None = None,
    ) -> None:
        self.batch_size = batch_size
        self.statistics = Statistics() if statistics is None else statistics
        self._watch = Stopwatch(self.statistics)
        self._session = session
        self._guess = guess
        self._host = HostExecutor(session, guess, batch_size, self._watch)
        self._executors: list[HostExecutor | Executor] = [self._host]
        self._tickets = count(1)
        self._free_rows = list(range(batch_size))
        #: Requests with sources that have no row yet.
        self._waiting: deque[Request[AnswerT]] = deque()
        #: The unanswered requests by ticket; and by row, with the rounds that run them.
        self._requests: dict[int, Request[AnswerT]] = {}
        self._rows: dict[int, tuple[Request[AnswerT], HostExecutor | Executor | None]] = {}
        self._stepping = RLock()
        self._submitting = Lock()
        #: Answers that an ended `finish` has not given.
        self._kept: list[tuple[int, AnswerT]] = []
        self._is_spent = False

    @property
    def live_count(self) -> int:
        """The number of unanswered queries."""
        return len(self._requests)

    def add(self, request: Request[AnswerT]) -> int:
        """Queue a request for rows; return the ticket of its answer.

        Raises ValueError if its drafter needs a feature that the engine lacks.
        """
        self.check_whole()
        drafter = request.strategy.drafter
        if drafter is not None and wants_hidden_states(drafter):
            self._session.keep_hidden_states()
        return self._add(request)

    def check_whole(self) -> None:
        """Raise RuntimeError if an interrupt or an error has ended a step half-way."""
        if self._is_spent:
            raise RuntimeError(
                f"{type(self).__name__} is spent: an interrupt or an error ended a step; "
                f"{self.live_count} queries have no answer: submit them to a new one"
            )

    @_whole
    def _add(self, request: Request[AnswerT]) -> int:
        with self._submitting:
            request.ticket = next(self._tickets)
            self._requests[request.ticket] = request
            self._waiting.append(request)
        return request.ticket

    @_whole
    def step(self, until_answered: bool = False) -> list[tuple[int, AnswerT]]:
        """Do a round of all live queries; return the answers with their tickets.

        until_answered: do several rounds if possible, at most until a query is answered, for
            callers with nothing to submit meanwhile.
        """
        with self._stepping:
            if not torch.is_inference_mode_enabled():
                return self._step(until_answered)
            # Caches made inside could not be written outside. Leaving the mode enables gradients.
            with torch.inference_mode(False), torch.no_grad():
                return self._step(until_answered)

    def finish(self) -> Iterator[tuple[int, AnswerT]]:
        """Step until all requests are answered.

        If the caller ends early, the next call gives the answers that are left.
        """
        answered, given = self._kept, 0
        self._kept = []
        try:
            while answered or self.live_count:
                for given, each in enumerate(answered, start=1):  # noqa: B007
                    yield each
                answered, given = [], 0
                if self.live_count:
                    answered = self.step(until_answered=True)
        finally:
            self._kept += answered[given:]

    def cancel(self, ticket: int) -> None:
        """Drop a query and free its rows. Raises ValueError if it is answered already."""
        with self._stepping:
            if ticket not in self._requests:
                raise ValueError(f"ticket is {ticket!r}: expected one that is not answered")
            self._drop(self._requests[ticket])

    @_whole
    def _drop(self, request: Request[AnswerT]) -> None:
        self._leave(request)

    def _step(self, until_answered: bool) -> list[tuple[int, AnswerT]]:
        self._watch.restart()  # the caller's time between steps is not decoding's
        answered = self._admit()
        for executor in self._executors:
            if not executor.live_count:
                continue
            calls = executor.decoder_calls
            done = executor.run(until_answered)
            self._watch.charge("step")
            self.statistics.decoder_calls += executor.decoder_calls - calls
            for each, (request, index) in [(each, self._free(each.row)) for each in done]:
                if isinstance(each, Decoded):
                    self.statistics.add(each)
                    request.found[index] = each
                    if len(request.found) == len(request.sources):
                        answered += self._answer(request)
                elif request.ticket in self._requests:
                    answered.append(self._fail(request, each.error))
        # An engine may drop the others, and their memory with them.
        self._executors[1:] = [each for each in self._executors[1:] if each.live_count]
        self._watch.charge("text")
        return answered

    def _admit(self) -> list[tuple[int, AnswerT]]:
        """Give free rows to waiting requests and encode them together; return the failures."""
        sources, answered = self._give_rows()
        self._watch.charge("text")
        if not sources:
            return answered
        errors = self._encode(sources)
        self._watch.charge("encode")
        for row, source in sources.items():
            if row not in self._rows:
                continue  # another source of its request has failed
            request, _ = self._rows[row]
            try:
                if row in errors:
                    raise errors[row]
                self._rows[row] = request, self._start(row, request.strategy, source)
            except Exception as error:
                answered.append(self._fail(request, error))
        return answered

    def _give_rows(self) -> tuple[dict[int, Source], list[tuple[int, AnswerT]]]:
        """The sources that get free rows, by row, and the requests whose text fails."""
        sources: dict[int, Source] = {}
        answered = []
        room, turns = _MOST_GIVEN, len(self._waiting)
        while self._free_rows and self._waiting and turns:
            request, turns = self._waiting[0], turns - 1
            try:
                if not request.sources:
                    request.advance()
            except Exception as error:
                answered.append(self._fail(request, error))
                continue
            is_long = len(request.sources) > 1 and isinstance(request.strategy.search, ForcedSpec)
            for source in request.sources[request.begun :][: len(self._free_rows)]:
                if is_long and room <= 0:
                    break
                room -= len(source.token_ids) * is_long
                row = self._free_rows.pop()
                request.rows[row] = request.begun
                request.begun += 1
                self._rows[row] = request, None
                sources[row] = source
            if request.begun == len(request.sources):
                self._waiting.popleft()
            elif self._free_rows:  # its other targets are for later steps
                self._waiting.rotate(-1)
        return sources, answered

    def _encode(self, sources: dict[int, Source]) -> dict[int, Exception]:
        """Encode sources into rows, or each alone if that fails; return errors by row."""
        rows, ids = list(sources), [source.encoder_ids for source in sources.values()]
        try:
            self._session.encode(rows, ids)
        except Exception as error:
            for row in rows:
                self._session.release(row)
            if len(rows) == 1:
                return {rows[0]: error}
            errors: dict[int, Exception] = {}
            for row, source in sources.items():
                errors |= self._encode({row: source})
            return errors
        return {}

    def _start(self, row: int, strategy: Strategy, source: Source) -> HostExecutor | Executor:
        executor = self._session.executor(strategy, source, self._guess) or self._host
        executor.start(row, strategy, source)
        if executor not in self._executors:
            self._executors.append(executor)
        return executor

    def _answer(self, request: Request[AnswerT]) -> list[tuple[int, AnswerT]]:
        try:
            request.advance()
        except StopIteration as end:
            del self._requests[request.ticket]
            return [(request.ticket, end.value)]
        except Exception as error:
            return [self._fail(request, error)]
        self._waiting.appendleft(request)
        return []

    def _fail(self, request: Request[AnswerT], error: Exception) -> tuple[int, AnswerT]:
        self._leave(request)
        return request.ticket, request.failed(error)

    def _leave(self, request: Request[AnswerT]) -> None:
        """Drop an unanswered request and free its rows."""
        del self._requests[request.ticket]
        with self._submitting:  # no request may be added during the search for it
            if request in self._waiting:
                self._waiting.remove(request)
        for row in list(request.rows):
            executor = self._rows[row][1]
            if executor is not None:
                executor.cancel(row)
            self._free(row)

    def _free(self, row: int) -> tuple[Request[AnswerT], int]:
        """Free a row; return its request and the index of its source."""
        request, _ = self._rows.pop(row)
        self._session.release(row)
        self._free_rows.append(row)
        return request, request.rows.pop(row)
