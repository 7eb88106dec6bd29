"""Answers that are kept, by molecule and settings, for whoever asks the same again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from threading import Lock

from molspec.options import PredictOptions
from molspec.predictor import Model
from molspec.provenance import run_settings
from molspec.results import Prediction, Result
from molspec.text import canonical_query

#: Settings that decide no answer.
_TOLD = ("model", "batch_size")
_TABLE = """
create table if not exists answers (
    key blob primary key, predictions text not null, error text, used integer not null
) without rowid;
create index if not exists by_use on answers (used);
"""


class AnswerCache:
    """At most `capacity` answers; those that were used longest ago go first.

    A planner asks for the same molecules in search after search. An answer is known by the
    canonical SMILES of its query, where the model is asked in it, and by all that decides it:
    weights, dtype, device, options, the version of molspec. So one cache serves several models, and
    what it gives is what the model would give, to the bit.

    path: a file that keeps the answers (SQLite); processes may share it. In memory where not given.

    Threads may share a cache; processes open one each, after they were forked. Raises ValueError
    where `path` is something else, OSError where it cannot be opened.
    """

    def __init__(self, capacity: int = 100_000, path: str | Path | None = None) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}: expected at least 1")
        self.capacity = capacity
        #: Queries that were answered from the cache, and those that were asked.
        self.hits = self.misses = 0
        self._settings: dict[tuple[str, PredictOptions], bytes] = {}
        self._lock = Lock()
        try:
            self._database = sqlite3.connect(
                ":memory:" if path is None else path, timeout=60, check_same_thread=False
            )
            # A write-ahead log, synced when it is folded in: a kill loses nothing, a power cut
            # at most the last answers.
            self._database.execute("pragma journal_mode = wal")
            self._database.execute("pragma synchronous = normal")
            self._database.executescript(_TABLE)
            (last,) = self._database.execute("select max(used) from answers").fetchone()
        except sqlite3.OperationalError as error:
            raise OSError(f"{path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"path is {str(path)!r}: expected a file of answers, {error}"
            ) from error
        self._clock: int = last or 0

    @staticmethod
    def files(path: Path | None) -> list[Path]:
        """The files of a cache: its own, and those that SQLite puts beside it."""
        names = () if path is None else ("", "-journal", "-shm", "-wal")
        return [Path(f"{path}{ending}") for ending in names]

    def __len__(self) -> int:
        with self._lock:
            (count,) = self._database.execute("select count(*) from answers").fetchone()
            return int(count)

    def close(self) -> None:
        """Close the file; nothing can be asked afterwards."""
        with self._lock:
            self._database.close()

    def predict(
        self, model: Model, queries: Iterable[str], options: PredictOptions | None = None
    ) -> list[Result]:
        """Answer every query as `Model.predict_stream` does; those that are new in one batch."""
        options = model.resolved(options or PredictOptions())
        queries = list(queries)
        keys = [self._key(model, query, options) for query in queries]
        found = self._found(set(keys))
        new = {key: query for key, query in zip(keys, queries, strict=True) if key not in found}
        self.misses += len(new)
        self.hits += len(keys) - len(new)
        if new:
            asked = replace(options, batch_size=min(options.batch_size, len(new)))
            answers = dict(zip(new, model.predict_stream(list(new.values()), asked), strict=True))
            self._keep(answers)
            found |= answers
        return [
            replace(found[key], query=query, task=model.task)
            for key, query in zip(keys, queries, strict=True)
        ]

    def _key(self, model: Model, query: str, options: PredictOptions) -> bytes:
        about = (model.fingerprint + model.dtype + model.device, options)
        settings = self._settings.get(about)
        if settings is None:
            values = run_settings("", model.fingerprint, model.device, model.dtype, options)
            kept = {name: value for name, value in values.items() if name not in _TOLD}
            written = json.dumps(kept, sort_keys=True).encode()
            settings = blake2b(written, digest_size=32).digest()
            self._settings[about] = settings
        if options.canonical_queries:
            try:
                query = canonical_query(query)
            except ValueError:  # its answer is the error that it gets, spelt as it is
                query = f"as it is: {query}"
        text = query.encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=16, key=settings).digest()

    def _found(self, keys: set[bytes]) -> dict[bytes, Result]:
        found: dict[bytes, Result] = {}
        with self._lock, self._database:
            for key in keys:
                row = self._database.execute(
                    "select predictions, error from answers where key = ?", (key,)
                ).fetchone()
                if row is not None:
                    found[key] = Result("", tuple(map(_read, json.loads(row[0]))), row[1])
            self._touch(found)
        return found

    def _keep(self, answers: dict[bytes, Result]) -> None:
        with self._lock, self._database:
            self._database.executemany(
                "insert or replace into answers values (?, ?, ?, 0)",
                [
                    (key, json.dumps([_written(each) for each in answer.predictions]), answer.error)
                    for key, answer in answers.items()
                ],
            )
            self._touch(answers)
            (count,) = self._database.execute("select count(*) from answers").fetchone()
            self._database.execute(
                "delete from answers where key in "
                "(select key from answers order by used limit max(0, ?))",
                (count - self.capacity,),
            )

    def _touch(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._clock += 1
            self._database.execute("update answers set used = ? where key = ?", (self._clock, key))


def _written(prediction: Prediction) -> list[object]:
    return [prediction.smiles, prediction.log_prob, prediction.finished, prediction.canonical]


def _read(values: tuple[str, float, bool, str | None]) -> Prediction:
    smiles, log_prob, finished, canonical = values
    return Prediction.known(smiles, log_prob, finished, canonical)
