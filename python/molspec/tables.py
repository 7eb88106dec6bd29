"""Text files and tables, plain or compressed (.gz, .xz)."""

from __future__ import annotations

import csv
import errno
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

_OPEN: dict[str, Callable[..., IO[Any]]] = {".gz": gzip.open, ".xz": lzma.open}
#: Endings of compressed files.
COMPRESSED = tuple(_OPEN)
_DAMAGED = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)
#: Characters of a header that an error shows.
_SHOWN = 200
#: Characters of a line at most: compressed, a line without end takes little space.
LONGEST_LINE = 1 << 20
#: What separates the cells of a file called .csv: what its first line has most of.
_SEPARATORS = ",;\t"
_BLANKS = str.maketrans("_-", "  ")
#: How cells begin that a spreadsheet takes for formulas, full-width too; numbers are none.
_FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?")


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """Open a file and give its lines, without the mark that some programs put before the first.

    What is not UTF-8 is replaced. Raises OSError, naming the file, if it cannot be read, its
    compressed data are damaged, or a line is longer than `LONGEST_LINE`.
    """
    opened = _OPEN.get(path.suffix, open)
    with opened(path, "rt", encoding="utf-8-sig", errors="replace") as stream:
        yield limited_lines(stream, path)


def limited_lines(stream: IO[str], path: Path | str) -> Iterator[str]:
    """The lines of a text stream. Raises OSError, naming `path`, as `open_lines` does."""
    try:
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE + 1), ""), start=1):
            if len(line) > LONGEST_LINE:
                fault = f"line {number} is too long: expected at most {LONGEST_LINE:,} characters"
                raise OSError(errno.EFBIG, fault, str(path))
            yield line
    except _DAMAGED as error:
        raise OSError(errno.EIO, f"damaged: {error}", str(path)) from error
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def read_cells(path: Path) -> Generator[tuple[int, list[str]], None, None]:
    """Line number, from 1, and cells of each row that is not empty, read as they are needed.

    Cells have tabs between them; where the file is called .csv, commas, semicolons or tabs,
    whichever its first line has most of, and quotes as csv has them. A first line `sep=;` names the
    separator, as Excel writes it. White space around a cell is no part of it.

    Raises ValueError if a row is no csv, OSError as `open_lines` does.
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
    first = next(lines, "")
    named = first.strip().casefold().removeprefix("sep=")
    before = int(named in (*_SEPARATORS,) and first.casefold().startswith("sep="))
    separator = named if before else max(_SEPARATORS, key=first.count)
    reader = csv.reader(lines if before else chain([first], lines), delimiter=separator)
    try:
        for cells in reader:
            yield reader.line_num + before, cells
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num + before}: {error}") from error


def inert_cell(text: str) -> str:
    """The cell, with a quote before what a spreadsheet would run as a formula."""
    return f"'{text}" if text.startswith(_FORMULAS) and not _NUMBER.fullmatch(text) else text


def find_column(header: Sequence[str], name: str) -> int | None:
    """Where a header has a column of this name; None if it has not.

    Case counts only where several differ by it; spaces, underscores and hyphens are one.
    """
    if name in header:
        return header.index(name)
    plain = [_plain(other) for other in header]
    return plain.index(_plain(name)) if _plain(name) in plain else None


def _plain(name: str) -> str:
    return name.casefold().translate(_BLANKS)


def name_columns(header: Sequence[str]) -> str:
    """Names of a header for an error, cut where they are many."""
    shown = ", ".join(header)
    return f"{shown[:_SHOWN]}..." if len(shown) > _SHOWN else shown or "which is empty"


def choose_column(
    path: Path | str, header: Sequence[str], option: str, name: str | None, defaults: Sequence[str]
) -> int:
    """Find the column that `option` names, or the first of `defaults` that the header has.

    Raises ValueError if there is none.
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
