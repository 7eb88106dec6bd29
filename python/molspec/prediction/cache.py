"""Answers stored by molecule and settings, for later searches."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from time import monotonic, sleep, time_ns
from typing import TYPE_CHECKING
from weakref import finalize

from molspec.common.fields import check_count
from molspec.decoding import Statistics
from molspec.prediction.config import AnyOptions, DecodeConfig
from molspec.prediction.model import Model, check_several
from molspec.prediction.options import OPTION_NAMES, PredictOptions, check_names
from molspec.prediction.results import ALL_DROPPED, Prediction, Result, Results, note_on

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from molspec.prediction.keywords import PredictKeywords

#: Seconds of waiting for another process that writes.
_PATIENCE = 60
#: Identifies SQLite files of answers, with the version of their table.
_APPLICATION, _VERSION = 0x6D6F6C73, 1
_KIND = (
    "select (select count(*) from sqlite_master), application_id, user_version "
    "from pragma_application_id, pragma_user_version"
)
_TABLE = f"""
begin immediate;
create table if not exists answers (
    key blob primary key, answer text not null, checksum blob not null, used integer not null
) without rowid;
create index if not exists by_use on answers (used);
pragma application_id = {_APPLICATION};
pragma user_version = {_VERSION};
commit;
"""


class AnswerCache:
    """Stores at most `capacity` answers; the least recently used one is dropped first.

    Planners request the same molecules in search after search. The key of an answer is its query,
    as canonical SMILES if the model decodes that, and everything that decides the answer: weights,
    dtype, device, options and the version of molspec. So one cache serves several models, and its
    answers are the model's own, to the bit. Where drafts decide answers too (relaxed verification,
    rejection, SBS), those of a drafter given as an object are not stored.

    path: an SQLite file of answers, which processes may share; by default answers are in memory.

    Errors are not stored: some are not the query's fault, such as a lack of memory. A damaged row
    is computed again. `damaged` counts such rows, and a warning reports the first.

    Threads may share a cache. Each process opens its own, after the fork; a pickled or copied one
    opens the same file, or begins empty in memory. Raises ValueError if
    `path` is another file. Raises OSError, then or later, if it is damaged or cannot be used.
    """

    def __init__(self, capacity: int = 100_000, path: str | Path | None = None) -> None:
        self.capacity = check_count("capacity", capacity, None)
        #: Queries that were answered from the cache, those that were decoded, and damaged rows.
        self.hits = self.misses = self.damaged = 0
        self._path = path
        self._lock = Lock()
        with self._naming_the_file(ValueError):
            self._database = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=_PATIENCE,
                isolation_level=None,  # every transaction is begun here
                check_same_thread=False,
            )
            finalize(self, self._database.close)
            self._open()

    def __reduce__(self) -> tuple[type[AnswerCache], tuple[int, Path | None]]:
        path = None if self._path is None else Path(self._path).resolve()
        return type(self), (self.capacity, path)

    def _open(self) -> None:
        """Choose the write-ahead log and make the table; again if another process does the same.

        SQLite itself does not wait for that log. Raises ValueError for a file of another kind.
        """
        deadline = monotonic() + _PATIENCE
        while True:
            try:
                tables, *kind = self._database.execute(_KIND).fetchone()
                if tables and kind != [_APPLICATION, _VERSION]:
                    raise ValueError(
                        f"path is {str(self._path)!r}: expected a file of answers, version "
                        f"{_VERSION}; it is another database"
                    )
                # A write-ahead log, synced when it is merged: a kill loses nothing, a power cut at
                # most the last answers.
                self._database.execute("pragma journal_mode = wal")
                self._database.execute("pragma synchronous = normal")
                if not tables:
                    self._database.executescript(_TABLE)
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or monotonic() > deadline:
                    raise
            sleep(0.01)

    @contextmanager
    def _naming_the_file(self, damaged: type[Exception] = OSError) -> Iterator[None]:
        """Name the file in errors of SQLite; raise `damaged` if the file itself is at fault."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._path}: {error}") from error
        except (sqlite3.DatabaseError, OverflowError, UnicodeDecodeError) as error:
            raise damaged(
                f"path is {str(self._path)!r}: expected a file of answers, {error}"
            ) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction that waits for those of other processes at its begin, and only there."""
        with self._lock, self._naming_the_file():
            self._database.execute("begin immediate")
            with self._database:
                yield

    @staticmethod
    def files(path: Path | None) -> list[Path]:
        """The files of a cache, with those that SQLite adds beside it."""
        names = () if path is None else ("", "-journal", "-shm", "-wal")
        return [Path(f"{path}{ending}") for ending in names]

    def __len__(self) -> int:
        with self._lock, self._naming_the_file():
            (count,) = self._database.execute("select count(*) from answers").fetchone()
            return int(count)

    def close(self) -> None:
        """Close the file; it cannot be used afterwards."""
        with self._lock:
            self._database.close()

    def predict(
        self,
        model: Model,
        queries: Iterable[str],
        options: AnyOptions | None = None,
        *,
        n_best: int | None = None,
        **values: Unpack[PredictKeywords],
    ) -> Results:
        """Answer every query as `Model.predict` does; those that are new in one batch.

        options: as for `Model.predict_stream`; or n_best and `values`, as for `Model.predict`. The
            statistics are those of the new queries. Raises ValueError and TypeError as they do.
        """
        check_several("queries", queries)
        check_names("predict", values, OPTION_NAMES)
        if n_best is not None or values:
            if options is not None:
                raise ValueError("options is given with options by name: expected one of them")
            options = PredictOptions(1 if n_best is None else n_best, **values)
        config = model.decode_config(options)
        statistics = Statistics()
        return Results(self._answers(model, list(queries), config, statistics), statistics)

    def _answers(
        self, model: Model, queries: list[str], config: DecodeConfig, statistics: Statistics
    ) -> list[Result]:
        if not config.is_told:
            self.misses += len(queries)
            return list(model.predict_stream(queries, config, statistics))
        settings = _settings_digest(config)
        keys = [_key(model, query, config.canonical_queries, settings) for query in queries]
        found = self._found(set(keys))
        new = {key: query for key, query in zip(keys, queries, strict=True) if key not in found}
        self.misses += len(new)
        self.hits += len(keys) - len(new)
        if new:
            if not config.options.drafts_decide:  # else the batch chooses the drafter
                size = min(config.options.batch_size, len(new))
                config = model.decode_config(replace(config.options, batch_size=size))
            decoded = model.predict_stream(list(new.values()), config, statistics)
            answers = dict(zip(new, decoded, strict=True))
            self._keep(
                {key: each for key, each in answers.items() if each.error in (None, ALL_DROPPED)}
            )
            found |= answers
        return [
            replace(found[key], query=query, task=model.task, note=note_on(query, model.task))
            for key, query in zip(keys, queries, strict=True)
        ]

    def _found(self, keys: set[bytes]) -> dict[bytes, Result]:
        found: dict[bytes, Result] = {}
        with self._lock, self._naming_the_file():
            for key in keys:
                row = self._database.execute(
                    "select cast(answer as blob), checksum from answers where key = ?", (key,)
                ).fetchone()
                if row is None:
                    continue
                if row[0] is not None and row[1] == _checksum(key, row[0]):
                    found[key] = _read(row[0])
                else:
                    self.damaged += 1
                    if self.damaged == 1:
                        told = f"{self._path}: an answer is damaged and is computed again"
                        warnings.warn(told, stacklevel=3)
        if found:
            with self._writing():
                # Processes that share the file have one clock.
                used = ((time_ns(), key) for key in found)
                self._database.executemany("update answers set used = ? where key = ?", used)
        return found

    def _keep(self, answers: dict[bytes, Result]) -> None:
        if not answers:
            return
        with self._writing():
            written = ((key, _written(answer)) for key, answer in answers.items())
            self._database.executemany(
                "insert or replace into answers values (?, ?, ?, ?)",
                [(key, text.decode(), _checksum(key, text), time_ns()) for key, text in written],
            )
            self._database.execute(
                "delete from answers where key in (select key from answers order by used "
                "limit max(0, (select count(*) from answers) - ?))",
                (self.capacity,),
            )


def _key(model: Model, query: str, canonical: bool, settings: bytes) -> bytes:
    if not isinstance(query, str):  # it gets an error, which is not stored
        query = f"\0{type(query).__name__}"
    elif canonical:
        try:
            query = model.reader.canonical(query)
        except ValueError:  # it gets its own error as the answer
            query = f"as it is: {query}"
    text = query.encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16, key=settings).digest()


def _settings_digest(config: DecodeConfig) -> bytes:
    values = json.dumps(config.answer_settings(""), sort_keys=True)
    return blake2b(values.encode(), digest_size=32).digest()


def _checksum(key: bytes, answer: bytes) -> bytes:
    return blake2b(answer, digest_size=8, key=key).digest()


def _written(answer: Result) -> bytes:
    return json.dumps([[each.to_json() for each in answer.predictions], answer.error]).encode()


def _read(answer: bytes) -> Result:
    predictions, error = json.loads(answer)
    return Result("", tuple(map(Prediction.from_json, predictions)), error)
