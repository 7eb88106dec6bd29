"""Progress on a terminal; nothing is shown elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

#: With fewer items there is no bar: they are done before it could be read.
_FEW = 5


def is_shown(output_is_terminal: bool = False) -> bool:
    """Whether there is a terminal that does not show the output itself."""
    return not output_is_terminal and sys.stderr.isatty()


@contextmanager
def stages(names: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Show the current stage and the number of finished ones, and clear that afterwards.

    Call the yielded function at the end of each stage.
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
    """Show the number of items, of `total` if it is known, counted from `done`."""
    from tqdm import tqdm

    rest = iter(things)
    yield from islice(rest, _FEW)
    yield from tqdm(
        rest, initial=done + _FEW, total=total, delay=0.1, unit=f" {unit}", disable=None
    )
