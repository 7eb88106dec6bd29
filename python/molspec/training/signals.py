"""SIGINT and SIGTERM during a training, which ends after the current step."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def noted_signals(process_count: int) -> Iterator[list[int]]:
    """Yield the list to which a received signal is added; a second signal interrupts at once.

    Not if several processes train: torchrun uses these signals to end them.
    """
    received: list[int] = []

    def note(number: int, _: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    is_main = threading.current_thread() is threading.main_thread()  # only it may set handlers
    noted = (signal.SIGINT, signal.SIGTERM) if is_main and process_count == 1 else ()
    before = {number: signal.signal(number, note) for number in noted}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
