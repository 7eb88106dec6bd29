"""Answers a stream of queries in order, reading them when they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from molspec.common.workers import in_processes
from molspec.decoding import Statistics
from molspec.prediction.decoder import Decoder
from molspec.prediction.results import Result

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")
#: Seconds of the first wait for an item, while there is other work.
_SOON = 0.001


def answers(
    decoder: Decoder, items: Iterable[ItemT], submit: Callable[[ItemT], int]
) -> Iterator[Result]:
    """Submit items when there is room for them and yield their results in the items' order.

    At most as many items are unanswered as are decoded together. Slow items do not stop the others:
    a thread reads an iterable without a length. An error of the items is raised after the answers
    to the items before it.
    """
    source = _Items(items) if isinstance(items, Sized) else _Threaded(items)
    order: deque[int] = deque()
    done: dict[int, Result] = {}
    try:
        while True:
            while decoder.live_count < decoder.batch_size and not source.ended:
                item = source.read(wait=not decoder.live_count)
                if not item:
                    break
                order.append(submit(item[0]))
            if not decoder.live_count and source.ended:
                break
            full = decoder.live_count >= decoder.batch_size
            done.update(decoder.step(until_answered=full or source.ended))
            while order and order[0] in done:
                yield done.pop(order.popleft())
    finally:
        source.close()
    if source.error is not None:
        raise source.taken_error()


def beside(
    items: Iterable[ItemT], answer: Callable[[Iterator[ItemT]], Iterable[AnswerT]]
) -> Iterator[tuple[ItemT, AnswerT]]:
    """Yield each item with its answer. `answer` is called at once; it may read in a thread."""
    read: deque[ItemT] = deque()

    def ahead() -> Iterator[ItemT]:
        for item in items:
            read.append(item)
            yield item

    return ((read.popleft(), found) for found in answer(ahead()))


def answers_of_processes(
    work: Callable[[Iterable[ItemT], Statistics], Iterator[Result]],
    items: Iterable[ItemT],
    failed: Callable[[ItemT], tuple[Result, Statistics]],
    count: int,
    statistics: Statistics,
) -> Iterator[Result]:
    """Yield what `work` yields for the items, in their order, from `count` processes.

    failed: makes the result and the statistics of an item whose workers died.
    """

    def counted(items: Iterator[ItemT]) -> Iterator[tuple[Result, Statistics]]:
        part = Statistics()
        for result in work(items, part):
            for prediction in result.predictions:
                _ = prediction.canonical  # computed here, and not by the single parent process
            yield result, part
            vars(part).update(vars(Statistics()))

    for result, part in in_processes(counted, items, count, failed):
        statistics.include(part)
        yield result


class _Items(Generic[ItemT]):
    """Items that can be read without waiting, and the error that ended them."""

    def __init__(self, items: Iterable[ItemT]) -> None:
        self._items = iter(items)
        self.ended = False
        self.error: BaseException | None = None

    def read(self, wait: bool) -> tuple[ItemT, ...]:
        """The next item, or nothing at the end."""
        del wait
        try:
            return (next(self._items),)
        except StopIteration:
            self.ended = True
        except Exception as error:
            self.ended, self.error = True, error
        return ()

    def close(self) -> None:
        """Do nothing: there is no thread to end."""

    def taken_error(self) -> BaseException:
        """Take the error: its traceback refers to local data, even a decoder's memory."""
        error, self.error = self.error, None
        assert error is not None
        return error


class _Threaded(_Items[ItemT]):
    """Items that may be slow: a thread reads one on request."""

    def __init__(self, items: Iterable[ItemT]) -> None:
        super().__init__(items)
        self._demand: SimpleQueue[bool] = SimpleQueue()
        self._read: SimpleQueue[tuple[ItemT, ...] | BaseException] = SimpleQueue()
        self._pending = self._slow = False
        Thread(target=self._work, daemon=True, name="molspec queries").start()

    def _work(self) -> None:
        while self._demand.get():
            try:
                self._read.put((next(self._items),))
            except StopIteration:
                self._read.put(())
            except BaseException as error:
                self._read.put(error)

    def read(self, wait: bool) -> tuple[ItemT, ...]:
        """The next item; nothing at the end, or if it has not arrived within the wait."""
        if not self._pending:
            self._demand.put(True)
            self._pending, self._slow = True, False
        try:
            item = self._read.get(timeout=None if wait else 0 if self._slow else _SOON)
        except Empty:
            self._slow = True
            return ()
        self._pending = False
        self.ended = isinstance(item, BaseException) or not item
        if isinstance(item, BaseException):
            self.error = item
            return ()
        return item

    def close(self) -> None:
        """End the thread."""
        self._demand.put(False)
