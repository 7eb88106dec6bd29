"""Tables of queries and targets, read as they are needed."""

from __future__ import annotations

import errno
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

#: Where no column is named, the first of these that the table has.
QUERY_COLUMNS = ("src", "product", "query")
TARGET_COLUMNS = ("tgt", "reactants", "target")

_OPEN: dict[str, Callable[..., IO[Any]]] = {".gz": gzip.open, ".xz": lzma.open}
_DAMAGED = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True)
class Pair:
    """A query and the answer it should have, as they stand in the table."""

    query: str
    target: str


class PairTable:
    """Two columns of a table with a header and tabs between its cells; plain, .gz or .xz.

    Iterating opens the file anew and reads a row at a time. Empty lines are no rows; a cell that a
    row does not have is empty.

    Raises ValueError where the table has no such column, OSError where it cannot be read.
    """

    def __init__(
        self, path: Path, query_column: str | None = None, target_column: str | None = None
    ) -> None:
        self.path = path
        with _lines(path) as lines:
            header = _cells(next(lines, ""))
        self.query_column = _choose(path, header, "query_column", query_column, QUERY_COLUMNS)
        self.target_column = _choose(path, header, "target_column", target_column, TARGET_COLUMNS)
        self._columns = (header.index(self.query_column), header.index(self.target_column))

    def __iter__(self) -> Iterator[Pair]:
        with _lines(self.path) as lines:
            next(lines)
            for line in lines:
                if line.strip():
                    cells = _cells(line)
                    yield Pair(*(cells[i] if i < len(cells) else "" for i in self._columns))


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[str]]:
    opened = _OPEN.get(path.suffix, open)
    try:
        with opened(path, "rt", encoding="utf-8-sig", errors="replace") as stream:
            yield iter(stream)
    except _DAMAGED as error:
        raise OSError(errno.EIO, f"damaged: {error}", str(path)) from error


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.rstrip("\n").split("\t")]


def _choose(
    path: Path, header: Sequence[str], option: str, name: str | None, defaults: Sequence[str]
) -> str:
    if name is None:
        found = next((default for default in defaults if default in header), None)
        if found is None:
            raise ValueError(
                f"{path}: none of the columns {', '.join(defaults)} is in its header, "
                f"{_names(header)}: name another by {option}"
            )
        return found
    if name not in header:
        raise ValueError(f"{option} is {name!r}: expected a column of {path}, {_names(header)}")
    return name


def _names(header: Sequence[str]) -> str:
    shown = ", ".join(header)
    return f"{shown[:200]}..." if len(shown) > 200 else shown or "which is empty"
