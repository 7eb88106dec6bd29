"""The file of a job that resumes after a kill: JSON lines; none is lost or made twice."""

import errno
import fcntl
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from molspec.common.console import naming, print_err

T = TypeVar("T")

#: Settings that are recorded but not compared: the weights identify a model.
_TOLD = ("model",)
#: Settings in an error that two jobs do not share.
_MOST_NAMED = 3
_IS_LINK = "Is a link: expected a file"
_IS_WRITTEN = "Another job is writing it: wait for its end, or give another output"
_IS_CHANGED = "Another program has changed it while the job ran"
#: Errors of a file system without locks.
_LOCKLESS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
#: The open files that this process has locked.
_locked: WeakSet[Any] = WeakSet()


def _drop_locks() -> None:
    """Take from a forked child its parent's locks: it may outlive the job that they belong to."""
    held = [stream for stream in _locked if not stream.closed]
    for stream in held:
        with open(os.devnull, "r+b", buffering=0) as null:
            os.dup2(null.fileno(), stream.fileno(), inheritable=False)


os.register_at_fork(after_in_child=_drop_locks)


@dataclass(frozen=True)
class Kind(Generic[T]):
    """The kind of a journal's records, and its name in errors.

    read: makes a record from JSON values; raises TypeError, ValueError or KeyError for others.
    write: the reverse.
    remedy: how to start again.
    """

    name: str
    read: Callable[[Any], T]
    write: Callable[[T], Any]
    remedy: str = "take another file to begin anew"


class Journal(Generic[T]):
    """A line of settings, then a line for each record; an interrupted job resumes from it.

    An incomplete last line is ignored, and removed when the next record is written; with `anew`, so
    is everything else.

    One job writes it at a time: the system frees the lock of a process that dies.

    Raises ValueError if the file has other settings or another format, OSError if it cannot be
    read, is not a file, or another job writes it.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, Any], kind: Kind[T], anew: bool = False
    ) -> None:
        self._path = path
        self._kind = kind
        self._header = _line(settings)
        self._whole_bytes = 0
        #: Whether the job has begun.
        self.is_there = os.path.lexists(path) and not anew
        for written in (path, self.successor(path)):
            check_file(written)
        #: The file that is written, while it is locked; and its state before.
        self._stream: Any = None
        self._before = file_state(path)
        if self.is_there:
            with open_alone(path, "rb") as stream:
                first = stream.readline()
                if self._header.startswith(first) and first != self._header:
                    return  # empty, or killed within the first line
                self._check(first, json.loads(self._header))  # a tuple is stored as a list
                self._whole_bytes = len(first)
                self._whole_bytes += sum(len(line) for line in stream if line.endswith(b"\n"))

    def _check(self, first: bytes, settings: Mapping[str, Any]) -> None:
        try:
            stored = dict(json.loads(first))
        except (ValueError, TypeError, RecursionError):
            stored = {}
        if others := sorted(stored.keys() ^ settings.keys()):
            told = f"{self._path} holds something else than such {self._kind.name}"
            if "molspec" in stored:
                only = ", ".join(others[:_MOST_NAMED])
                told += f", or is of another version: only one of them knows {only}"
            raise ValueError(f"{told}: take another file")
        compared = {name: value for name, value in settings.items() if name not in _TOLD}
        holds = f"{self._path} holds {self._kind.name}"
        check_same(compared, stored, holds, self._kind.remedy)

    def records(self) -> Iterator[T]:
        """The records. Raises ValueError if a complete line is not a record."""
        if not self._whole_bytes:
            return
        with open_unlinked(self._path, "rb") as stream:
            next(stream)
            for number, line in enumerate(stream, start=2):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield self._kind.read(json.loads(line))
                except (ValueError, TypeError, KeyError, RecursionError) as error:
                    raise ValueError(f"{self._path}, line {number}: no record") from error

    def last(self) -> T | None:
        """The last record. Raises ValueError as `records` does."""
        return next(iter(deque(self.records(), maxlen=1)), None)

    def begin_anew(self) -> None:
        """Drop all records, in the file with the next record."""
        self._whole_bytes = 0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the file until the end.

        Raises OSError, naming it, if another job writes it, or another program has changed it since
        it was read, or replaced it in the end.
        """
        if self._stream is not None:
            yield
            return
        self._stream = open_alone(self._path, "ab")
        try:
            is_new = not self._before and not os.path.getsize(self._path)
            if not is_new and file_state(self._path) != self._before:
                raise OSError(errno.ESTALE, _IS_CHANGED, str(self._path))
            yield
            check_own(self._stream, self._path)
        finally:
            self._stream.close()
            self._stream = None

    @contextmanager
    def appending(self) -> Iterator[Callable[[T], None]]:
        """Lock the file, and write after its last complete line."""
        with self.alone():
            self._stream.truncate(self._whole_bytes)

            def append(line: bytes) -> None:
                self._whole_bytes = extend(self._stream, line, self._whole_bytes)

            if not self._whole_bytes:
                append(self._header)
            yield lambda record: append(_line(self._kind.write(record)))

    def record(self, results: Iterable[T]) -> Iterator[T]:
        """Append each result, then yield it."""
        with self.appending() as append:
            for result in results:
                append(result)
                yield result

    def shorten(self, last: T) -> None:
        """Write one record in place of all others."""
        content, shorter = self._header + _line(self._kind.write(last)), self.successor(self._path)
        with self.alone():
            stream = open_alone(shorter, "wb")
            before, self._stream = self._stream, stream
            with before:
                write_whole(stream, content, str(shorter))
                shorter.replace(self._path)
            self._whole_bytes = len(content)

    @staticmethod
    def successor(path: Path) -> Path:
        """The file that will replace a journal."""
        return path.with_name(path.name + ".new")


def check_same(
    settings: Mapping[str, Any], stored: Mapping[str, Any], holds: str, remedy: str
) -> None:
    """Raise ValueError that names a setting of a job that has begun with another one.

    holds: a phrase that names the file; remedy: how to start again.
    """
    for key, value in settings.items():
        if stored.get(key) != value:
            raise ValueError(f"{key} is {value!r}, but {holds} with {stored.get(key)!r}: {remedy}")


def check_file(path: Path) -> None:
    """Raise OSError if it is a link, or no file: a device can be read without end."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, _IS_LINK, str(path))
    if path.exists() and not path.is_file():
        number = errno.EISDIR if path.is_dir() else errno.EINVAL
        words = "Is a directory" if path.is_dir() else "Is a device: expected a file"
        raise OSError(number, words, str(path))


def open_unlinked(path: Path, mode: str) -> Any:
    """Open a file, without a buffer if it is written.

    Raises OSError, naming the file, if it is a link to one.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    try:
        return open(path, mode, buffering=-1 if mode == "rb" else 0, opener=opener)
    except OSError as error:
        if error.errno == errno.ELOOP:
            error.strerror = _IS_LINK
        raise


def open_alone(path: Path, mode: str) -> Any:
    """Open a file as `open_unlinked` does, and lock it until it is closed, or the process ends.

    A process that is forked meanwhile has neither the lock nor the file.

    Raises OSError, naming the file, if it is locked.
    """
    stream = open_unlinked(path, mode)
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _locked.add(stream)
    except BlockingIOError as error:
        stream.close()
        raise BlockingIOError(error.errno, _IS_WRITTEN, str(path)) from None
    except OSError as error:
        if error.errno not in _LOCKLESS:
            raise
        print_err(f"{path}: its file system has no locks: let no other job write it")
    return stream


def file_state(path: Path) -> str:
    """What changes with a file: its number, its size and the time of its last change; "" if none.

    A link is not followed.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return ""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


def check_own(stream: Any, path: Path) -> None:
    """Raise OSError, naming the file, unless the open one is still there under its name."""
    if not os.path.samestat(os.fstat(stream.fileno()), os.stat(path)):
        raise OSError(errno.ESTALE, _IS_CHANGED, str(path))


def extend(stream: Any, data: bytes, end: int) -> int:
    """Write data after a file's first `end` bytes, which are all, and return its new size.

    Raises OSError, naming the file, if it cannot be written, or another program has cut it.
    """
    if os.fstat(stream.fileno()).st_size != end:
        raise OSError(errno.ESTALE, _IS_CHANGED, str(stream.name))
    write_whole(stream, data, str(stream.name))
    return end + len(data)


def _line(values: Any) -> bytes:
    return json.dumps(values).encode() + b"\n"


def write_whole(stream: RawIOBase, data: bytes, name: str) -> None:
    """Write all of `data` to a stream without a buffer. Raises OSError, naming the file."""
    rest = memoryview(data)
    with naming(name):
        while rest:
            rest = rest[stream.write(rest) :]
