"""Files of results: resumed after an interruption, and in their place only when complete."""

from __future__ import annotations

import os
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic

from molspec.common import console, journal
from molspec.files.answer import Answered, AnswerT, OutputContext, Query
from molspec.files.formats import Format
from molspec.files.places import Reads, check_apart, output_path

_UNFINISHED = ".unfinished"
_JOURNAL = ".journal"


@dataclass(frozen=True)
class Progress:
    """The progress of a job.

    done: written results; failed: those with an error; refused: those refused before decoding.
    end: their bytes in the file.
    queries: a digest of all answered queries.
    replaces: the state of the file that the job replaces, as of `file_state`; "" for none.
    """

    done: int = 0
    failed: int = 0
    refused: int = 0
    end: int = 0
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
    values = vars(progress)
    return {**values, "checksum": zlib.crc32(repr(values).encode())}


def _read(values: dict[str, Any]) -> Progress:
    progress = Progress(**{name: each for name, each in values.items() if name != "checksum"})
    if _written(progress) != values:
        raise ValueError(f"checksum is {values.get('checksum')!r}: expected that of the others")
    return progress


_PROGRESS = journal.Kind("predictions", _read, _written, "--overwrite begins anew")


class ResultFile(Generic[AnswerT]):
    """A file of results.

    It is written as NAME.unfinished and renamed when it is complete. NAME.journal has the settings
    and the progress: the same job resumes after the last complete result, also if queries were
    added. If the output is a link, the file that it leads to is written. A file that another
    program has made or changed meanwhile is not written over, and of two jobs with one output the
    second is refused.

    reads: the files that the job reads, see `check_apart`.
    overwrite: start again; an earlier output stays until the new one is complete.

    Raises ValueError if the journal is of other settings, if a file that the job has not written is
    in its way, if one that it has written has another size, or if an input is an output. Raises
    OSError if a file cannot be read.
    """

    def __init__(
        self,
        path: Path,
        form: Format[AnswerT],
        context: OutputContext,
        settings: Mapping[str, Any],
        overwrite: bool = False,
        reads: Reads | None = None,
    ) -> None:
        self._path = path = output_path(path)
        self._unfinished = path.with_name(path.name + _UNFINISHED)
        self._form, self._context = form, context
        self._foot = form.foot(context).encode()
        self._queries = blake2b(digest_size=16)
        #: The queries that were read and are not answered: an answer's query may be another one.
        self._read = deque[bytes]()
        self._journal_path = path.with_name(path.name + _JOURNAL)
        written = (path, self._unfinished, self._journal_path)
        check_apart(reads or {}, [*written, journal.Journal.successor(self._journal_path)])
        journal.check_file(self._unfinished)  # before anything is written; Journal checks its own
        self._journal = journal.Journal(self._journal_path, settings, _PROGRESS, anew=overwrite)
        self._overwrite = overwrite
        self.progress = Progress(replaces=journal.file_state(path)) if overwrite else self._found()

    def _found(self) -> Progress:
        """The journal's progress, unless the results themselves are missing."""
        progress = self._journal.last()
        if progress is not None:
            if not progress.done:  # the job was about to overwrite another one
                return progress
            if os.path.lexists(self._unfinished):
                self._check_free(progress)
                self._check_size(self._unfinished, progress.end)
                return progress
            if os.path.lexists(self._path):
                self._check_size(self._path, progress.end, len(self._foot))
                return progress
        for path in (self._path, *(() if self._journal.is_there else [self._unfinished])):
            if os.path.lexists(path):
                raise ValueError(f"{path} is there already: {_PROGRESS.remedy}")
        self._journal.begin_anew()
        return Progress()

    def _check_size(self, path: Path, end: int, foot: int | None = None) -> None:
        """Raise ValueError if a file has other bytes than `end` and its foot.

        foot: the foot's bytes; without it, any may follow: a result that is not in the journal.
        """
        size = path.stat().st_size
        if size < end or (foot is not None and size != end + foot):
            raise ValueError(
                f"{path} is not what {self._journal_path} says: it has {size} bytes, expected "
                f"{end + (foot or 0)}: {_PROGRESS.remedy}"
            )

    def _check_free(self, progress: Progress) -> None:
        """Raise OSError if there is a file of the output's name that the job may not replace."""
        if journal.file_state(self._path) not in ("", progress.replaces):
            raise FileExistsError(
                f"{self._path} is there since the job began: move it away, then the same command "
                "goes on"
            )

    @property
    def is_whole(self) -> bool:
        """Whether there are results and none is unfinished."""
        return self.progress.done > 0 and not self._unfinished.exists()

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

        Raises OSError, naming the file, if one cannot be written.
        """
        answers = iter(answers)
        ahead = list(islice(answers, 1))
        with self._journal.alone():
            if ahead or (self.progress.done and not self.is_whole):
                yield from self._write(chain(ahead, answers))
            self._journal.shorten(replace(self.progress, replaces=""))

    def _write(self, answers: Iterable[AnswerT]) -> Iterator[AnswerT]:
        if self._overwrite:
            self._journal.shorten(self.progress)
        end = self.progress.end
        with self._journal.appending() as append, self._opened() as stream:
            stream.truncate(end)
            stream.seek(end)
            if not end:
                end = journal.extend(stream, _encoded(self._form.head(self._context)), end)
            for answer in answers:
                answer, text = self._form.written(answer, self._context)
                end = journal.extend(stream, _encoded(text), end)
                self._queries.update(self._read.popleft())
                self.progress = replace(
                    self.progress.after(answer), end=end, queries=self._queries.hexdigest()
                )
                append(self.progress)
                yield answer
            journal.extend(stream, self._foot, end)
            os.fsync(stream.fileno())
            journal.check_own(stream, self._unfinished)
        self._check_free(self.progress)
        self._unfinished.replace(self._path)

    def _opened(self) -> Any:
        """The unfinished file, which may be the complete one of a job that has grown."""
        if self.progress.done and not self._unfinished.exists():
            self._path.replace(self._unfinished)
        return journal.open_unlinked(self._unfinished, "r+b" if self.progress.done else "wb")


class ResultStream(Generic[AnswerT]):
    """Results on standard output, in a pipe or on a device, each as soon as it is made.

    Raises ValueError if standard output is a file in `reads`.
    """

    def __init__(
        self, name: str, form: Format[AnswerT], context: OutputContext, reads: Reads | None = None
    ) -> None:
        self._name, self._form, self._context = name, form, context
        self.progress = Progress()
        if name == console.STANDARD:
            check_apart(reads or {}, [sys.stdout.fileno()])

    def rest(self, queries: Iterator[Query]) -> Iterator[Query]:
        """All queries: a stream is not resumed."""
        return queries

    def write(self, answers: Iterable[AnswerT]) -> Iterator[AnswerT]:
        """Write answers as they arrive, and yield them.

        Raises OSError, naming the file, if it cannot be written.
        """
        standard = self._name == console.STANDARD
        name = "standard output" if standard else self._name
        to = sys.stdout.fileno() if standard else name
        with open(to, "wb", buffering=0, closefd=not standard) as stream:
            journal.write_whole(stream, _encoded(self._form.head(self._context)), name)
            for answer in answers:
                answer, text = self._form.written(answer, self._context)
                journal.write_whole(stream, _encoded(text), name)
                self.progress = self.progress.after(answer)
                yield answer
            journal.write_whole(stream, _encoded(self._form.foot(self._context)), name)


def is_stream(name: str) -> bool:
    """Whether it is standard output, a pipe or a device."""
    return name == console.STANDARD or (Path(name).exists() and not Path(name).is_file())


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
