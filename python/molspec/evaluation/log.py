"""The file of an evaluation: JSON lines, of which none is lost or made twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from molspec.evaluation.record import Record
from molspec.journal import Journal

#: A model is known by its weights, whatever it is called.
_TOLD = ("model",)


class RecordLog:
    """A line of settings, then a line a record; what was begun is gone on with: see `Journal`."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self._journal = Journal(path, settings, "an evaluation", _TOLD)

    def records(self) -> Iterator[Record]:
        """What is done. Raises ValueError where a whole line is no record."""
        for number, values in self._journal.values():
            try:
                yield Record.from_json(values)
            except (ValueError, TypeError, KeyError) as error:
                raise self._journal.damaged(number) from error

    @contextmanager
    def appending(self) -> Iterator[Callable[[Record], None]]:
        """Open the file for what comes behind its last whole line."""
        with self._journal.appending() as append:
            yield lambda record: append(record.to_json())
