"""What a command shows on a terminal while it works: nothing where there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

#: Things before a bar for them: few are done before one would be read.
_FEW = 5


def is_shown(output_is_terminal: bool = False) -> bool:
    """Whether there is a terminal for it that does not show the output itself."""
    return not output_is_terminal and sys.stderr.isatty()


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Show what takes its time now, and nothing of it afterwards."""
    if not is_shown():
        yield
        return
    sys.stderr.write(f"{name} ...")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write(f"\r{' ' * (len(name) + 4)}\r")
        sys.stderr.flush()


def counted(things: Iterable[T], unit: str, total: int | None = None, done: int = 0) -> Iterator[T]:
    """Show how many there were, of `total` where it is known; `done` came before."""
    from tqdm import tqdm

    rest = iter(things)
    yield from islice(rest, _FEW)
    yield from tqdm(rest, initial=done + _FEW, total=total, delay=0.1, unit=f" {unit}")
