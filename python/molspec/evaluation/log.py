"""The file of an evaluation: JSON lines, of which none is lost or made twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from molspec.evaluation.record import Record

#: Settings that are told and decide nothing: a model is known by its weights.
_TOLD = ("model",)


class RecordLog:
    """A line of settings, then a line a record; what was begun is gone on with.

    A last line that a kill cut short does not count, and goes when the next record is written.

    Raises ValueError where the file is of other settings or something else, OSError where it
    cannot be read.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self._path = path
        self._header = _line(settings)
        self._whole_bytes = 0
        if path.exists():
            with path.open("rb") as stream:
                first = stream.readline()
                if self._header.startswith(first) and first != self._header:
                    return  # empty, or killed within the first line
                self._check(first, settings)
                self._whole_bytes = len(first)
                self._whole_bytes += sum(len(line) for line in stream if line.endswith(b"\n"))

    def _check(self, first: bytes, settings: Mapping[str, Any]) -> None:
        try:
            stored = dict(json.loads(first))
        except (ValueError, TypeError):
            stored = {}
        if stored.keys() != settings.keys():
            raise ValueError(
                f"{self._path} holds something else than such an evaluation: take another file"
            )
        for name, value in settings.items():
            if name not in _TOLD and stored[name] != value:
                raise ValueError(
                    f"{name} is {value!r}, but {self._path} holds an evaluation with "
                    f"{stored[name]!r}: take another file to begin anew"
                )

    def records(self) -> Iterator[Record]:
        """What is done. Raises ValueError where a whole line is no record."""
        if not self._whole_bytes:
            return
        with self._path.open("rb") as stream:
            next(stream)
            for number, line in enumerate(stream, start=2):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield Record.from_json(json.loads(line))
                except (ValueError, TypeError, KeyError) as error:
                    raise ValueError(f"{self._path}, line {number}: no record") from error

    @contextmanager
    def appending(self) -> Iterator[Callable[[Record], None]]:
        """Open the file for what comes behind its last whole line."""
        with self._path.open("ab") as stream:
            stream.truncate(self._whole_bytes)
            if not self._whole_bytes:
                stream.write(self._header)

            def append(record: Record) -> None:
                stream.write(_line(record.to_json()))
                stream.flush()

            yield append


def _line(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values).encode() + b"\n"
