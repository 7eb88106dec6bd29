"""What a training writes down: rows of numbers in CSV files."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path


class CsvLog:
    """A CSV file with a column `step`, to which rows are added as they come.

    A training that goes on at `step_count` has not made the rows after it: they are dropped. The
    others are never away: a file with them takes the place of the old one.
    """

    def __init__(self, path: Path, columns: tuple[str, ...], step_count: int) -> None:
        self._path = path
        self._columns = columns
        rows = []
        if path.exists():
            with path.open(encoding="utf-8", newline="") as stream:
                rows = [row for row in csv.DictReader(stream) if _step(row) <= step_count]
        unfinished = path.with_name(f"{path.name}.unfinished")
        with unfinished.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, columns)
            writer.writeheader()
            writer.writerows(rows)
        unfinished.rename(path)

    def add(self, row: Mapping[str, float | None]) -> None:
        """Write a row; None is an empty cell."""
        cells = {name: _cell(row[name]) for name in self._columns}
        with self._path.open("a", encoding="utf-8", newline="") as stream:
            csv.DictWriter(stream, self._columns).writerow(cells)


def _step(row: Mapping[str, str | None]) -> float:
    """Give the step of a row; a row that a kill cut short has none to trust."""
    complete = None not in row.values()
    return int(row["step"] or 0) if complete else float("inf")


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
