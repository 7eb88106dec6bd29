"""Files of results: resumed after an interruption, and in their place only when complete."""

from __future__ import annotations

import json
import os
import re
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic

from molspec.common.console import STANDARD
from molspec.common.journal import (
    Journal,
    Kind,
    check_file,
    check_own,
    extend,
    file_state,
    open_unlinked,
    write_whole,
)
from molspec.files.answer import Answered, AnswerT, OutputContext, Query
from molspec.files.formats import Format
from molspec.files.places import Reads, check_apart, output_path

_UNFINISHED = ".unfinished"
_JOURNAL = ".journal"
#: Bytes at a journal's end that contain its last line; bytes that are read at a time.
_TAIL, _CHUNK = 4096, 1 << 20


@dataclass(frozen=True)
class Progress:
    """The progress of a job.

    done: written results; failed: those with an error; refused: those refused before decoding.
    end: their bytes in the last part; output: a digest of those bytes.
    parts: parts that the job may replace or remove: its own, and those of a job that it overwrites.
    queries: a digest of all answered queries.
    replaces: the state of the file that the last part replaces, as of `file_state`; "" for none.
    """

    done: int = 0
    failed: int = 0
    refused: int = 0
    end: int = 0
    output: str = ""
    parts: int = 0
    queries: str = ""
    replaces: str = ""

    def after(self, result: Answered) -> Progress:
        """The progress after one more result."""
        return replace(
            self,
            done=self.done + 1,
            failed=self.failed + (result.error is not None),
            refused=self.refused + result.is_refused,
        )


def _written(progress: Progress) -> dict[str, Any]:
    return {**vars(progress), "checksum": _checksum(vars(progress))}


def _read(values: dict[str, Any]) -> Progress:
    values = dict(values)
    checksum = values.pop("checksum")
    if checksum != _checksum(values):
        raise ValueError(f"checksum is {checksum!r}: expected {_checksum(values)}")
    return Progress(**values)


def _checksum(values: Mapping[str, Any]) -> int:
    return zlib.crc32(repr(dict(values)).encode())


_PROGRESS = Kind("predictions", _read, _written, "--overwrite begins anew")


class ResultFile(Generic[AnswerT]):
    """Results in a file, or in parts of `part_size` results: out-00001.csv for out.csv, and so on.

    A part is written as NAME.unfinished and renamed when it is complete. NAME.journal has the
    settings and the progress: the same job resumes after the last complete result, also if queries
    were added. If the output is a link, the file that it leads to is written. A file that another
    program has made or changed meanwhile is not written over, and of two jobs with one output the
    second is refused.

    reads: the files that the job reads, see `check_apart`.
    overwrite: start again; an earlier output stays until the new one is complete.

    Raises ValueError if the journal is of other settings, if a file that the job has not written is
    in its way, if one that it has written was changed, or if an input is an output. Raises OSError
    if a file cannot be read.
    """

    def __init__(
        self,
        path: Path,
        form: Format[AnswerT],
        context: OutputContext,
        settings: Mapping[str, Any],
        part_size: int | None = None,
        overwrite: bool = False,
        reads: Reads | None = None,
    ) -> None:
        if part_size is not None and part_size < 1:
            raise ValueError(f"part_size is {part_size}: expected at least 1")
        self._path = path = output_path(path)
        self._form, self._context, self._size = form, context, part_size
        self._foot = form.foot(context).encode()
        self._queries, self._output = blake2b(digest_size=16), blake2b(digest_size=16)
        #: The queries that were read and are not answered: an answer's query may be another one.
        self._read = deque[bytes]()
        self._journal_path = path.with_name(path.name + _JOURNAL)
        mine = [path, _unfinished(path), self._journal_path]
        numbered = dict(self._numbered())
        check_apart(reads or {}, [*mine, Journal.successor(self._journal_path), *numbered])
        check_file(_unfinished(path))  # before anything is written; Journal checks its own
        self._journal = Journal(self._journal_path, settings, _PROGRESS, anew=overwrite)
        self._overwrite = overwrite
        self.progress = self._before() if overwrite else self._found()
        for found, number in numbered.items() if part_size else ():
            begun = found.name.endswith(_UNFINISHED) and self._journal_path.exists()
            if number > self.progress.parts + begun:
                raise ValueError(
                    f"{found} is there already, and {self._journal_path} does not name it: "
                    "expected no file of this name"
                )

    def _numbered(self) -> Iterator[tuple[Path, int]]:
        """Files with the name of a part, finished or not, and their numbers."""
        stem, suffix = re.escape(self._path.stem), re.escape(self._path.suffix)
        name = re.compile(rf"{stem}-(\d{{5,}}){suffix}({re.escape(_UNFINISHED)})?")
        for path in self._path.parent.iterdir():
            if match := name.fullmatch(path.name):
                yield path, int(match[1])

    def _before(self) -> Progress:
        """The progress of a job that overwrites another: what it may replace."""
        replaces = "" if self._size else file_state(self._path)
        try:
            with open_unlinked(self._journal_path, "rb") as stream:
                stream.seek(max(0, self._journal_path.stat().st_size - _TAIL))
                parts = _read(json.loads(stream.read().split(b"\n")[-2])).parts
        except (OSError, ValueError, TypeError, KeyError, IndexError):
            parts = 0
        return Progress(parts=parts, replaces=replaces)

    def _found(self) -> Progress:
        """The journal's progress, unless the results themselves are missing."""
        progress = self._journal.last()
        if progress is not None:
            part = self._part(progress.done - 1)
            if not progress.done:  # the job was about to overwrite another one
                return progress
            for written in (_unfinished(part), part):
                if os.path.lexists(written):
                    if written != part:
                        _check_free(part, progress)
                    self._check_written(written, progress, written == part)
                    return progress
        first = self._part(0)
        for path in (first, *(() if self._journal.is_there else [_unfinished(first)])):
            if os.path.lexists(path):
                raise ValueError(f"{path} is there already: {_PROGRESS.remedy}")
        self._journal.begin_anew()
        return Progress()

    def _check_written(self, path: Path, progress: Progress, whole: bool) -> None:
        """Raise ValueError if a part was changed."""
        size, end = path.stat().st_size, progress.end + whole * len(self._foot)
        fault = f"it has {size} bytes, expected {end}"
        if size == end or (size > end and not whole):
            fault = "its bytes have changed"
            with open_unlinked(path, "rb") as stream:
                for start in range(0, progress.end, _CHUNK):
                    self._output.update(stream.read(min(_CHUNK, progress.end - start)))
                changed = whole and stream.read() != self._foot
            if self._output.hexdigest() == progress.output and not changed:
                return
        raise ValueError(
            f"{path} is not what {self._journal_path} says: {fault}: {_PROGRESS.remedy}"
        )

    @property
    def is_whole(self) -> bool:
        """Whether there are results and none is unfinished."""
        done = self.progress.done
        return done > 0 and not _unfinished(self._part(done - 1)).exists()

    def _part(self, index: int) -> Path:
        """The part of the result with an index."""
        return self._path if self._size is None else self._numbered_part(index // self._size + 1)

    def _numbered_part(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.stem}-{number:05}{self._path.suffix}")

    def rest(self, queries: Iterator[Query]) -> Iterator[Query]:
        """The unanswered queries.

        Raises ValueError if the queries before them are not those that were answered.
        """
        for query in islice(queries, self.progress.done):
            self._queries.update(_encoded(repr(query)))
        if self.progress.done and self._queries.hexdigest() != self.progress.queries:
            raise ValueError(
                f"{self._journal_path} holds predictions of other queries: of the first "
                f"{self.progress.done} some have changed: {_PROGRESS.remedy}"
            )
        return map(self._noted, queries)

    def _noted(self, query: Query) -> Query:
        self._read.append(_encoded(repr(query)))
        return query

    def write(self, answers: Iterable[AnswerT]) -> Iterator[AnswerT]:
        """Write answers to the queries of `rest` as they arrive, and yield them.

        At the end every part is complete.

        Raises OSError, naming the file, if one cannot be written.
        """
        answers = iter(answers)
        ahead = list(islice(answers, 1))
        with self._journal.alone():
            if ahead or not self.is_whole:
                yield from self._write(chain(ahead, answers))
            last = -(-self.progress.done // self._size) if self._size else 0
            for number in range(last + 1, self.progress.parts + 1):
                for path in (part := self._numbered_part(number), _unfinished(part)):
                    path.unlink(missing_ok=True)
            self._journal.shorten(replace(self.progress, parts=last, replaces=""))

    def _write(self, answers: Iterable[AnswerT]) -> Iterator[AnswerT]:
        if self._overwrite:
            self._journal.shorten(self.progress)
        with ExitStack() as opened, self._journal.appending() as append:
            part = self._reopened(opened)
            for answer in answers:
                if part is None:
                    part = self._begun(opened)
                self._add(part, answer)
                append(self.progress)
                if self._is_full:
                    part.finish(self._foot, self.progress)
                    part = None
                yield answer
            if part:
                part.finish(self._foot, self.progress)

    @property
    def _is_full(self) -> bool:
        """Whether the next result belongs to the next part."""
        return self._size is not None and self.progress.done % self._size == 0

    def _reopened(self, opened: ExitStack) -> _Part | None:
        """The unfinished part, if there is one."""
        if not self.progress.done:
            return None
        path = self._part(self.progress.done - 1)
        if self._is_full and not _unfinished(path).exists():
            return None
        part = _Part(path, self.progress.end, opened)
        if self._is_full:  # killed before it was renamed
            part.finish(self._foot, self.progress)
            return None
        return part

    def _begun(self, opened: ExitStack) -> _Part:
        self._output = blake2b(digest_size=16)
        if self._size:
            number = self.progress.done // self._size + 1
            if number > self.progress.parts and os.path.lexists(self._numbered_part(number)):
                raise FileExistsError(f"{self._numbered_part(number)} is there since the job began")
            self.progress = replace(
                self.progress,
                parts=max(self.progress.parts, number),
                replaces=file_state(self._numbered_part(number)),
            )
        part = _Part(self._part(self.progress.done), 0, opened)
        self._output.update(part.write(self._form.head(self._context)))
        return part

    def _add(self, part: _Part, answer: AnswerT) -> None:
        self._output.update(part.write(self._form.render(answer, self._context)))
        self._queries.update(self._read.popleft())
        self.progress = replace(
            self.progress.after(answer),
            end=part.end,
            output=self._output.hexdigest(),
            queries=self._queries.hexdigest(),
        )


class _Part:
    """A file that is written from its byte `end` on; `opened` closes it."""

    def __init__(self, path: Path, end: int, opened: ExitStack) -> None:
        self._path = path
        self.end = end
        written = _unfinished(path)
        if end and not written.exists():
            path.replace(written)
        self._stream = opened.enter_context(open_unlinked(written, "r+b" if end else "wb"))
        self._stream.truncate(end)
        self._stream.seek(end)

    def write(self, text: str) -> bytes:
        data = _encoded(text)
        self.end = extend(self._stream, data, self.end)
        return data

    def finish(self, foot: bytes, progress: Progress) -> None:
        """Rename the complete file to its final name.

        Raises OSError if another program has changed it, or made one of that name.
        """
        extend(self._stream, foot, self.end)
        os.fsync(self._stream.fileno())
        check_own(self._stream, _unfinished(self._path))
        self._stream.close()
        _check_free(self._path, progress)
        _unfinished(self._path).replace(self._path)


class ResultStream(Generic[AnswerT]):
    """Results on standard output, in a pipe or on a device, each as soon as it is made.

    Raises ValueError if standard output is a file in `reads`.
    """

    def __init__(
        self, name: str, form: Format[AnswerT], context: OutputContext, reads: Reads | None = None
    ) -> None:
        self._name, self._form, self._context = name, form, context
        self.progress = Progress()
        if name == STANDARD:
            check_apart(reads or {}, [sys.stdout.fileno()])

    def rest(self, queries: Iterator[Query]) -> Iterator[Query]:
        """All queries: a stream is not resumed."""
        return queries

    def write(self, answers: Iterable[AnswerT]) -> Iterator[AnswerT]:
        """Write answers as they arrive, and yield them.

        Raises OSError, naming the file, if it cannot be written.
        """
        standard = self._name == STANDARD
        name = "standard output" if standard else self._name
        to = sys.stdout.fileno() if standard else name
        with open(to, "wb", buffering=0, closefd=not standard) as stream:
            write_whole(stream, _encoded(self._form.head(self._context)), name)
            for answer in answers:
                write_whole(stream, _encoded(self._form.render(answer, self._context)), name)
                self.progress = self.progress.after(answer)
                yield answer
            write_whole(stream, _encoded(self._form.foot(self._context)), name)


def _check_free(part: Path, progress: Progress) -> None:
    """Raise OSError if there is a file of a part's name that the job may not replace."""
    if file_state(part) not in ("", progress.replaces):
        raise FileExistsError(
            f"{part} is there since the job began: move it away, then the same command goes on"
        )


def is_stream(name: str) -> bool:
    """Whether it is standard output, a pipe or a device."""
    return name == STANDARD or (Path(name).exists() and not Path(name).is_file())


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + _UNFINISHED)
