"""Files of JSON lines that a job which was killed goes on with: no line is lost or made twice."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Journal:
    """A line of settings, then a line a value; what was begun is gone on with.

    A last line that a kill cut short does not count, and goes when the next value is written.
    Settings of `told` are told and decide nothing.

    Raises ValueError where the file is of other settings or something else than `what`, OSError
    where it cannot be read or is no file.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, Any], what: str, told: Collection[str] = ()
    ) -> None:
        self._path = path
        self._header = _line(settings)
        self._what = what
        self._whole_bytes = 0
        if path.exists():
            if not path.is_file():  # a device can be read without end
                number = errno.EISDIR if path.is_dir() else errno.EINVAL
                words = "Is a directory" if path.is_dir() else "Is a device: expected a file"
                raise OSError(number, words, str(path))
            with path.open("rb") as stream:
                first = stream.readline()
                if self._header.startswith(first) and first != self._header:
                    return  # empty, or killed within the first line
                self._check(first, settings, told)
                self._whole_bytes = len(first)
                self._whole_bytes += sum(len(line) for line in stream if line.endswith(b"\n"))

    def _check(self, first: bytes, settings: Mapping[str, Any], told: Collection[str]) -> None:
        try:
            stored = dict(json.loads(first))
        except (ValueError, TypeError, RecursionError):
            stored = {}
        if stored.keys() != settings.keys():
            raise ValueError(
                f"{self._path} holds something else than such {self._what}: take another file"
            )
        for name, value in settings.items():
            if name not in told and stored[name] != value:
                raise ValueError(
                    f"{name} is {value!r}, but {self._path} holds {self._what} with "
                    f"{stored[name]!r}: take another file to begin anew"
                )

    def values(self) -> Iterator[tuple[int, Any]]:
        """What is done, with the number of its line. Raises ValueError where one is no JSON."""
        if not self._whole_bytes:
            return
        with self._path.open("rb") as stream:
            next(stream)
            for number, line in enumerate(stream, start=2):
                if not line.endswith(b"\n"):
                    return
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise self.damaged(number) from error
                yield number, value

    def damaged(self, number: int) -> ValueError:
        """The error for a line that holds something else."""
        return ValueError(f"{self._path}, line {number}: no record")

    @contextmanager
    def appending(self) -> Iterator[Callable[[Any], None]]:
        """Open the file for what comes behind its last whole line.

        Raises OSError, naming the file, where it cannot be written.
        """
        with self._path.open("ab", buffering=0) as stream:

            def append(line: bytes) -> None:
                try:
                    while line:  # a disk that fills up takes a part
                        line = line[stream.write(line) :]
                except OSError as error:
                    raise OSError(error.errno, error.strerror, str(self._path)) from error

            stream.truncate(self._whole_bytes)
            if not self._whole_bytes:
                append(self._header)
            yield lambda value: append(_line(value))


def _line(values: Any) -> bytes:
    return json.dumps(values).encode() + b"\n"
