"""Names of options that a function passes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def check_names(function: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise TypeError, as Python does, for a name that is none of an option; it says what is."""
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            meant = f": did you mean {close[0]}?" if close else ":"
            raise TypeError(f"{function} has no option {name!r}{meant} expected {', '.join(known)}")
