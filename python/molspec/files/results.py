"""Files of results that go on after a kill, and are there only when they are whole."""

from __future__ import annotations

import errno
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, Generic

from molspec.files.answer import AnswerT, Query
from molspec.files.context import OutputContext
from molspec.files.formats import Format
from molspec.files.sources import STANDARD
from molspec.journal import Journal, Kind, write_whole

_UNFINISHED = ".unfinished"
_JOURNAL = ".journal"


@dataclass(frozen=True)
class Progress:
    """How far a job is.

    done: results that are written; failed: of those, the ones without answers.
    end: bytes of the last part that they take.
    queries: a digest of all queries that they answer.
    """

    done: int = 0
    failed: int = 0
    end: int = 0
    queries: str = ""


_PROGRESS = Kind[Progress](
    "predictions", lambda values: Progress(**values), vars, "--overwrite begins anew"
)


class ResultFile(Generic[AnswerT]):
    """Results in a file, or in parts of `part_size` results: out-00001.csv for out.csv, and so on.

    A part is written beside its place, as NAME.unfinished, and takes it when it is whole. How far
    the job is stands in NAME.journal, with the settings: the same job goes on behind the last
    result that is whole, also where there are more queries than there were.

    `progress` is what is done.

    Raises ValueError where the journal is of other settings, or the file is there without one;
    `overwrite` begins anew all the same, and leaves what is there until the new one is whole.
    OSError where it cannot be read.
    """

    def __init__(
        self,
        path: Path,
        form: Format[AnswerT],
        context: OutputContext,
        settings: Mapping[str, Any],
        part_size: int | None = None,
        overwrite: bool = False,
    ) -> None:
        if part_size is not None and part_size < 1:
            raise ValueError(f"part_size is {part_size}: expected at least 1")
        _check_place(path)
        self._path, self._form, self._context, self._size = path, form, context, part_size
        self._foot = form.foot(context).encode()
        self._digest = blake2b(digest_size=16)
        self._journal_path = path.with_name(path.name + _JOURNAL)
        self._journal = Journal(self._journal_path, settings, _PROGRESS, anew=overwrite)
        self.progress = Progress() if overwrite else self._found()

    def _found(self) -> Progress:
        """What the journal says, unless the results themselves are gone."""
        for progress in deque(self._journal.records(), maxlen=1):
            part = self._part(progress.done - 1)
            whole = not _unfinished(part).exists()
            written = part if whole else _unfinished(part)
            if written.exists():
                size, end = written.stat().st_size, progress.end + whole * len(self._foot)
                if size < end or (whole and size > end):
                    raise ValueError(
                        f"{written} is not what {self._journal_path} says: it has {size} bytes, "
                        f"expected {end}: {_PROGRESS.remedy}"
                    )
                return progress
        if self._part(0).exists():
            raise ValueError(f"{self._part(0)} is there already: {_PROGRESS.remedy}")
        self._journal.begin_anew()
        return Progress()

    @property
    def is_whole(self) -> bool:
        """Whether results are there and none of them is under way."""
        done = self.progress.done
        return done > 0 and not _unfinished(self._part(done - 1)).exists()

    def _part(self, index: int) -> Path:
        """Where the result of an index belongs."""
        if self._size is None:
            return self._path
        number = index // self._size + 1
        return self._path.with_name(f"{self._path.stem}-{number:05}{self._path.suffix}")

    def rest(self, queries: Iterator[Query]) -> Iterator[Query]:
        """Give the queries that are still to be answered.

        Raises ValueError where those before them are not the ones that have been.
        """
        for query in islice(queries, self.progress.done):
            self._digest.update(_bytes_of(query))
        if self.progress.done and self._digest.hexdigest() != self.progress.queries:
            raise ValueError(
                f"{self._journal_path} holds predictions of other queries: of the first "
                f"{self.progress.done} some have changed: {_PROGRESS.remedy}"
            )
        return queries

    def write(self, answers: Iterable[AnswerT]) -> Iterator[AnswerT]:
        """Write answers as they come, and give them on; at the end every part is whole.

        Raises OSError, naming the file, where one cannot be written.
        """
        answers = iter(answers)
        ahead = list(islice(answers, 1))
        if ahead or not self.is_whole:
            yield from self._write(chain(ahead, answers))
        self._journal.shorten(self.progress)
        self._remove_parts_behind()

    def _write(self, answers: Iterable[AnswerT]) -> Iterator[AnswerT]:
        with ExitStack() as opened, self._journal.appending() as append:
            part = self._reopened(opened)
            for answer in answers:
                if part is None:
                    part = self._begun(opened)
                self._add(part, answer)
                append(self.progress)
                if self._is_full:
                    part.finish(self._foot)
                    part = None
                yield answer
            if part:
                part.finish(self._foot)

    @property
    def _is_full(self) -> bool:
        """Whether the next result belongs to the next part."""
        return self._size is not None and self.progress.done % self._size == 0

    def _reopened(self, opened: ExitStack) -> _Part | None:
        """The part that was under way, where one was."""
        if not self.progress.done:
            return None
        path = self._part(self.progress.done - 1)
        if self._is_full and not _unfinished(path).exists():
            return None
        part = opened.enter_context(closing(_Part(path, self.progress.end)))
        if self._is_full:  # killed before it took its place
            part.finish(self._foot)
            return None
        return part

    def _begun(self, opened: ExitStack) -> _Part:
        part = opened.enter_context(closing(_Part(self._part(self.progress.done), 0)))
        part.write(self._form.head(self._context))
        return part

    def _add(self, part: _Part, answer: AnswerT) -> None:
        part.write(self._form.render(answer, self._context))
        self._digest.update(_bytes_of(answer.query))
        self.progress = Progress(
            self.progress.done + 1,
            self.progress.failed + (answer.error is not None),
            part.end,
            self._digest.hexdigest(),
        )

    def _remove_parts_behind(self) -> None:
        """Of a job that had more parts and was overwritten."""
        if self._size is None:
            return
        last = (self.progress.done - 1) // self._size
        for index in count(last + 1):
            path = self._part(index * self._size)
            if not path.exists():
                return
            path.unlink()


class _Part:
    """A file that is being written, from its byte `end` on."""

    def __init__(self, path: Path, end: int) -> None:
        self._path = path
        self.end = end
        written = _unfinished(path)
        if end and not written.exists():
            path.replace(written)
        self._stream = open(written, "r+b" if end else "wb", buffering=0)  # noqa: SIM115 - `close`
        self._stream.truncate(end)
        self._stream.seek(end)

    def write(self, text: str) -> None:
        data = _encoded(text)
        write_whole(self._stream, data, self._stream.name)
        self.end += len(data)

    def finish(self, foot: bytes) -> None:
        """Put the file, now whole, in its place."""
        write_whole(self._stream, foot, self._stream.name)
        os.fsync(self._stream.fileno())
        self.close()
        _unfinished(self._path).replace(self._path)

    def close(self) -> None:
        self._stream.close()


class ResultStream(Generic[AnswerT]):
    """Results on standard output, in a pipe or on a device, each as soon as it is there.

    A file that was there is replaced. `progress` is what is done.
    """

    def __init__(self, name: str, form: Format[AnswerT], context: OutputContext) -> None:
        self._name, self._form, self._context = name, form, context
        self.progress = Progress()

    def rest(self, queries: Iterator[Query]) -> Iterator[Query]:
        """All of them: nothing is gone on with."""
        return queries

    def write(self, answers: Iterable[AnswerT]) -> Iterator[AnswerT]:
        """Write answers as they come, and give them on.

        Raises OSError, naming the file, where it cannot be written.
        """
        standard = self._name == STANDARD
        name = "standard output" if standard else self._name
        to = sys.stdout.fileno() if standard else name
        with open(to, "wb", buffering=0, closefd=not standard) as stream:
            write_whole(stream, _encoded(self._form.head(self._context)), name)
            for answer in answers:
                write_whole(stream, _encoded(self._form.render(answer, self._context)), name)
                failed = self.progress.failed + (answer.error is not None)
                self.progress = Progress(answer.number, failed)
                yield answer
            write_whole(stream, _encoded(self._form.foot(self._context)), name)


def is_stream(name: str) -> bool:
    """Whether that is standard output, a pipe or a device."""
    return name == STANDARD or (Path(name).exists() and not Path(name).is_file())


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _bytes_of(query: Query) -> bytes:
    return _encoded(repr((query.smiles, query.name, query.error)))


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + _UNFINISHED)


def _check_place(path: Path) -> None:
    """Raise OSError where no file can be, naming the one that was asked for."""
    code = errno.EISDIR if path.is_dir() else None if path.parent.is_dir() else errno.ENOENT
    if code is not None:
        raise OSError(code, os.strerror(code), str(path))
