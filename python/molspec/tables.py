"""Text files and tables, plain or compressed (.gz, .xz)."""

from __future__ import annotations

import csv
import errno
import gzip
import lzma
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_OPEN: dict[str, Callable[..., IO[Any]]] = {".gz": gzip.open, ".xz": lzma.open}
#: Endings of compressed files.
COMPRESSED = tuple(_OPEN)
_DAMAGED = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)
#: Characters of a header that an error shows.
_SHOWN = 200


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """Open a file and give its lines, without the mark that some programs put before the first.

    What is not UTF-8 is replaced. Raises OSError, naming the file, where it cannot be read or its
    compressed data are damaged.
    """
    opened = _OPEN.get(path.suffix, open)
    with opened(path, "rt", encoding="utf-8-sig", errors="replace") as stream:
        yield _undamaged(stream, path)


def _undamaged(stream: IO[str], path: Path) -> Iterator[str]:
    try:
        yield from stream
    except _DAMAGED as error:
        raise OSError(errno.EIO, f"damaged: {error}", str(path)) from error
    except OSError as error:  # of reading, which names no file
        raise OSError(error.errno, error.strerror, str(path)) from error


def read_cells(path: Path) -> Generator[tuple[int, list[str]], None, None]:
    """Line number, from 1, and cells of each row that is not empty, read as they are needed.

    Cells have tabs between them; where the file is called .csv, commas, and quotes as csv has
    them. White space around a cell is no part of it.

    Raises ValueError where a row is no csv, OSError as `open_lines` does.
    """
    with open_lines(path) as lines:
        yield from split_cells(lines, ".csv" in path.suffixes, path)


def split_cells(
    lines: Iterator[str], commas: bool, path: Path | str
) -> Iterator[tuple[int, list[str]]]:
    """Split lines as `read_cells` does; `path` is what to call their file."""
    if commas:
        rows = _comma_separated(lines, path)
    else:
        rows = enumerate((line.split("\t") for line in lines), start=1)
    for number, row in rows:
        cells = [cell.strip() for cell in row]
        if any(cells):
            yield number, cells


def _comma_separated(lines: Iterator[str], path: Path | str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from error


def find_column(header: Sequence[str], name: str) -> int | None:
    """Where a header has a column of this name, whatever its case; None where it has not."""
    if name in header:
        return header.index(name)
    lowered = [other.casefold() for other in header]
    return lowered.index(name.casefold()) if name.casefold() in lowered else None


def name_columns(header: Sequence[str]) -> str:
    """Names of a header for an error, cut where they are many."""
    shown = ", ".join(header)
    return f"{shown[:_SHOWN]}..." if len(shown) > _SHOWN else shown or "which is empty"


def choose_column(
    path: Path | str,
    header: Sequence[str],
    option: str,
    name: str | None,
    defaults: Sequence[str],
) -> int:
    """Find the column that `option` names, or the first of `defaults` that the header has.

    Raises ValueError where there is none.
    """
    names = defaults if name is None else (name,)
    found = (find_column(header, name) for name in names)
    column = next((index for index in found if index is not None), None)
    if column is not None:
        return column
    if name is not None:
        raise ValueError(
            f"{option} is {name!r}: expected a column of {path}, {name_columns(header)}"
        )
    raise ValueError(
        f"{path}: none of the columns {', '.join(defaults)} is in its header, "
        f"{name_columns(header)}: name another by {option}"
    )
