"""Answers a stream of queries in order, reading them when they are needed."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from molspec.common.items import Items
from molspec.common.workers import in_processes
from molspec.decoding import Statistics
from molspec.prediction.decoder import Decoder
from molspec.prediction.results import Result

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")
#: Least items in progress at once in several processes: queries differ in their time.
_AHEAD = 1024
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
    source = Items(items)
    order: deque[int] = deque()
    done: dict[int, Result] = {}
    try:
        while True:
            while decoder.live_count < decoder.batch_size and not source.ended:
                busy = decoder.live_count > 0
                item = source.take((0.0 if source.is_late else _SOON) if busy else None)
                if item is None:
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
        raise _taken_error(source)


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
    ahead: int,
) -> Iterator[Result]:
    """Yield what `work` yields for the items, in their order, from `count` processes.

    failed: makes the result and the statistics of an item whose workers died.
    ahead: items that are in progress after the first one without a result, so that every process
        has a full batch while another's is waited for; at least 1,024.
    """

    def counted(items: Iterator[ItemT]) -> Iterator[tuple[Result, Statistics]]:
        part = Statistics()
        for result in work(items, part):
            for prediction in result.predictions:
                _ = prediction.canonical  # computed here, and not by the single parent process
            yield result, part
            vars(part).update(vars(Statistics()))

    for result, part in in_processes(counted, items, count, failed, ahead=max(ahead, _AHEAD)):
        statistics.include(part)
        yield result


def _taken_error(source: Items[Any]) -> BaseException:
    """Take the error: its traceback refers to local data, even a decoder's memory."""
    error, source.error = source.error, None
    assert error is not None
    return error
