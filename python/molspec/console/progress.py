"""What a command shows on a terminal while it works: nothing where there is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
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
def stages(names: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Show which stage is under way and how many have been, and nothing of it afterwards.

    What is given is to be called at the end of each.
    """
    if not is_shown():
        yield lambda: None
        return
    from tqdm import tqdm

    with tqdm(total=len(names), leave=False, bar_format="{desc} |{bar:20}| {n}/{total}") as bar:
        bar.set_description_str(names[0])

        def done() -> None:
            bar.update()
            bar.set_description_str(names[min(bar.n, len(names) - 1)])

        yield done


def counted(things: Iterable[T], unit: str, total: int | None = None, done: int = 0) -> Iterator[T]:
    """Show how many there were, of `total` where it is known; `done` came before."""
    from tqdm import tqdm

    rest = iter(things)
    yield from islice(rest, _FEW)
    yield from tqdm(rest, initial=done + _FEW, total=total, delay=0.1, unit=f" {unit}")
