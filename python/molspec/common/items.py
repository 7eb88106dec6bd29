"""Items that may be slow: a thread reads them, so that results do not wait for them."""

from collections.abc import Callable, Iterable, Sized
from queue import Empty, Queue, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Items(Generic[ItemT]):
    """Items of an iterable. If it has no length, a thread reads them.

    ahead: items that the thread reads before they are taken.
    arrived: called in the thread after each item, and at the end.

    ended: whether all are taken; error: what ended them, None if nothing did.
    is_late: whether the last call of `take` found none in time.
    """

    ended = is_late = False
    error: BaseException | None = None

    def __init__(
        self, items: Iterable[ItemT], ahead: int = 1, arrived: Callable[[], object] = lambda: None
    ) -> None:
        self._items, self._ahead, self._arrived = iter(items), ahead, arrived
        self._asked, self._is_closed, self._is_read = 0, False, False
        self._wanted: SimpleQueue[bool] = SimpleQueue()
        #: Not a SimpleQueue, which in Python 3.10 waits forever if a timeout is over as it begins.
        self._read: Queue[tuple[ItemT] | BaseException | None] = Queue()
        self._has_thread = not isinstance(items, Sized)
        if self._has_thread:
            Thread(target=self._work, daemon=True, name="molspec items").start()

    def _work(self) -> None:
        while self._wanted.get() and not (self._is_closed or self._is_read):
            # Not a local: an error refers to all that its traceback does, while this thread lives.
            self._read.put(self._next(BaseException))
            self._arrived()

    def _next(self, caught: type[BaseException]) -> tuple[ItemT] | BaseException | None:
        try:
            return (next(self._items),)
        except StopIteration:
            self._is_read = True
            return None
        except caught as error:
            self._is_read = True
            return error

    def take(self, seconds: float | None = 0.0) -> tuple[ItemT] | None:
        """The next item; None at the end, or if none arrives in time.

        seconds: how long to wait; None until it arrives.
        """
        if self._has_thread:
            for _ in range(self._ahead - self._asked):
                self._wanted.put(True)
            self._asked = self._ahead
            try:
                found = self._read.get(timeout=seconds)
            except Empty:
                self.is_late = True
                return None
            self._asked -= 1
        else:
            found = self._next(Exception)
        self.is_late = False
        if isinstance(found, tuple):
            return found
        self.ended, self.error = True, found
        return None

    def close(self) -> None:
        """End the thread."""
        self._is_closed = True
        self._wanted.put(False)
