"""Waits for what another thread or process does."""

import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Waits until a condition holds, which it must in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not hold yet"
        time.sleep(0.005)
