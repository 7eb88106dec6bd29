"""An evaluation: a model predicts the targets of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from molspec.common.console import quoted
from molspec.common.journal import Journal, Kind
from molspec.evaluation import pairs, summary
from molspec.evaluation.record import Record
from molspec.prediction.config import DecodeConfig
from molspec.prediction.streams import beside
from molspec.text import canonicalise, without_deuterium

if TYPE_CHECKING:
    from molspec.common.workers import Processes
    from molspec.prediction.model import Model
    from molspec.prediction.results import Result


@dataclass(frozen=True)
class Settings:
    """The settings that decide the records of an evaluation.

    model: the model's name in reports; `config` is compared when an evaluation resumes.
    offset: rows to skip at the table's beginning.
    deuterium_as_hydrogen: in queries, for a model whose vocabulary lacks deuterium.
    """

    table: pairs.PairTable
    model: str
    config: DecodeConfig
    offset: int = 0
    deuterium_as_hydrogen: bool = False

    def to_json(self) -> dict[str, Any]:
        """The model and options as JSON values. Defaults are resolved."""
        return {
            **self.config.settings(self.model),
            "table": ", ".join(path.name for path in self.table.paths),
            "query_column": self.table.query_column,
            "target_column": self.table.target_column,
            "group_column": self.table.group_column,
            "offset": self.offset,
            **({"deuterium_as_hydrogen": True} if self.deuterium_as_hydrogen else {}),
        }


_RECORDS = Kind("an evaluation", Record.from_json, Record.to_json)


class Evaluation:
    """The rows of a table from settings.offset on, `limit` at most.

    `summary` covers the finished rows, `groups` those of each group, if the table has groups;
    `labelled` counts the queries with deuterium, `repeats` those of reactions before.

    output: a file for the records, see `Journal`. If it exists, its records count as done and `run`
    continues after them.

    Raises ValueError if `output` is of other settings or of another table.
    """

    def __init__(
        self, settings: Settings, output: Path | None = None, limit: int | None = None
    ) -> None:
        for name, value, least in (("offset", settings.offset, 0), ("limit", limit, 1)):
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}: expected at least {least}")
        self.settings = settings
        self.summary = summary.Summary(settings.config.options.answer_count)
        self.groups: dict[str, summary.Summary] = {}
        self.labelled = self.repeats = 0
        self._seen = set[int]()
        self._has_run = False
        stop = None if limit is None else settings.offset + limit
        self._rows = islice(settings.table, settings.offset, stop)
        self._log = None if output is None else Journal(output, settings.to_json(), _RECORDS)
        if self._log is not None:
            for record, row in zip(self._log.records(), self._rows, strict=False):
                if record.pair != row:
                    raise ValueError(
                        f"{output} holds an evaluation of another table: it has "
                        f"{quoted(record.query)} where {settings.table.paths[0]} has "
                        f"{quoted(row.query)}"
                    )
                self._add(record)

    def run(self, model: Model, processes: Processes = 1) -> Iterator[Record]:
        """Answer the remaining rows; each is recorded before it is yielded.

        processes: as of `Model.predict_stream`.

        Raises ValueError if the model cannot be used with the options, or if it was called before.
        """
        if self._has_run:
            raise ValueError("run was called before: make a new Evaluation, which resumes `output`")
        self._has_run = True

        def results(rows: Iterator[pairs.Pair]) -> Iterator[Result]:
            lacks = self.settings.deuterium_as_hydrogen and model.lacks_deuterium
            queries = (without_deuterium(row.query) if lacks else row.query for row in rows)
            return model.predict_stream(queries, self.settings.config, processes=processes)

        records = self._records(beside(self._rows, results))
        return records if self._log is None else self._log.record(records)

    def _records(self, answered: Iterator[tuple[pairs.Pair, Result]]) -> Iterator[Record]:
        began = perf_counter()
        for row, result in answered:
            record = Record.of(row, result, perf_counter() - began)
            self._add(record)
            yield record
            began = perf_counter()

    def _add(self, record: Record) -> None:
        self.summary.add(record)
        self.labelled += "[2H" in record.query
        target = record.target_canonical or record.target
        row = hash((canonicalise(record.query) or record.query, target))
        self.repeats += row in self._seen
        self._seen.add(row)
        if self.settings.table.group_column is not None:
            empty = summary.Summary(self.settings.config.options.answer_count)
            self.groups.setdefault(record.group, empty).add(record)
