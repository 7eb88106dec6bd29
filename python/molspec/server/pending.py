"""A request in progress: its queries and the queue of its answers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from molspec.prediction.config import DecodeConfig
from molspec.prediction.results import Result

#: The rows that a target counts as, plain or aligned, of which a step may decode all spellings: a
#: step with more targets would delay others.
_TARGET_ROWS, _ALIGNED_ROWS = 4, 16
#: The index of a query in its request, and its result.
Answered = tuple[int, Result]


class WithdrawnError(Exception):
    """The request was withdrawn before it was answered completely."""


@dataclass(frozen=True)
class Targets:
    """The targets of a request, one a query, and whether they are scored aligned."""

    texts: Sequence[str]
    aligned: bool


@dataclass(eq=False)
class PendingRequest:
    """The queries of one request; its answers are yielded as they are made.

    Created in the event loop that waits for them; answered from any thread.
    """

    queries: Sequence[str]
    config: DecodeConfig
    targets: Targets | None = None
    #: The maximum number of unanswered queries that it counts as towards the server's limit.
    most_counted: int | None = None
    #: The indices of the answered queries.
    answered: set[int] = field(default_factory=set)
    #: For its turns in a batch: its next query, and the number in progress.
    next: int = 0
    under_way: int = 0

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._coming: asyncio.Queue[list[Answered] | BaseException] = asyncio.Queue()

    @property
    def count(self) -> int:
        """Its queries."""
        return len(self.queries)

    @property
    def counted(self) -> int:
        """Its unanswered queries, as they count towards the server's limit."""
        unanswered = self.count - self.next + self.under_way
        return unanswered if self.most_counted is None else min(unanswered, self.most_counted)

    @property
    def rows(self) -> int:
        """The rows that a query takes, one for each spelling that is decoded at once.

        A target counts as several: a step verifies all its tokens.
        """
        if self.targets is not None:
            return _ALIGNED_ROWS if self.targets.aligned else _TARGET_ROWS
        options = self.config.options
        return 1 if options.augment_below is not None else options.augmentations

    @property
    def hypotheses(self) -> int:
        """The hypotheses of a query in all its rows, or its samples."""
        if self.targets is not None:
            return 1
        return self.rows * (self.config.options.samples or self.config.options.width)

    def deliver(self, coming: list[Answered] | BaseException) -> None:
        """Deliver answers, or an error to be raised, to the event loop. From any thread."""
        with suppress(RuntimeError):  # the loop is closed: nothing waits for them
            self._loop.call_soon_threadsafe(self._coming.put_nowait, coming)

    async def answers(self, seconds: float, spent: float = 0.0) -> AsyncIterator[Answered]:
        """The answers as they are made; after the time limit, errors in place of the others.

        spent: seconds of the limit that have passed.

        Raises the error that `deliver` received.
        """
        left = max(0.0, seconds - spent)
        alarm = self._loop.call_later(left, self._coming.put_nowait, TimeoutError())
        try:
            while len(self.answered) < self.count:
                coming = await self._coming.get()
                if isinstance(coming, TimeoutError):
                    break
                if isinstance(coming, BaseException):
                    raise coming
                for index, result in coming:
                    self.answered.add(index)
                    yield index, result
        finally:
            alarm.cancel()
        for index in sorted(set(range(self.count)) - self.answered):
            error = f"not answered within {seconds:g} s"
            yield index, Result(self.queries[index], error=error)
