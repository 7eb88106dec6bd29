"""Items that may be slow: how far they are read, and when they are late."""

import threading
from collections.abc import Iterator

from molspec.common.items import Items


def test_a_thread_reads_no_further_than_is_allowed() -> None:
    read: list[int] = []
    arrived = threading.Semaphore(0)

    def counted() -> Iterator[int]:
        for item in range(9):
            read.append(item)
            yield item

    items = Items(counted(), 2, arrived.release)
    assert read == []  # nothing has been asked for
    assert items.take(None) == (0,)
    for _ in range(2):
        arrived.acquire()
    assert read == [0, 1]
    items.close()
    (thread,) = (each for each in threading.enumerate() if each.name == "molspec items")
    thread.join()
    assert read == [0, 1]


def test_an_item_that_is_late_is_not_the_end() -> None:
    ready = threading.Event()
    items = Items(ready.wait() for _ in range(1))
    assert (items.take(), items.is_late, items.ended) == (None, True, False)
    ready.set()
    assert (items.take(None), items.is_late) == ((True,), False)
    assert (items.take(None), items.is_late, items.ended) == (None, False, True)
