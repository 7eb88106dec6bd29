"""SIGINT and SIGTERM while a training takes a step: the step ends whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def noted_signals(process_count: int) -> Iterator[list[int]]:
    """Give the list to which a signal is added when it comes; a second one interrupts at once.

    Not where several processes train: torchrun ends those so that have lost another one.
    """
    received: list[int] = []

    def note(number: int, _: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    is_main = threading.current_thread() is threading.main_thread()  # no other sets handlers
    noted = (signal.SIGINT, signal.SIGTERM) if is_main and process_count == 1 else ()
    before = {number: signal.signal(number, note) for number in noted}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
