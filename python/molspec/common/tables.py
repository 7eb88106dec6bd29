"""Text files and tables, plain or compressed (.gz, .xz)."""

import codecs
import csv
import errno
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import Any

from molspec.common.console import naming, print_err, quoted
from molspec.common.fields import wrong

_OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
#: Endings of compressed files.
COMPRESSED = tuple(_OPEN)
#: Endings of files of reactions with coordinates.
RXN_ENDINGS = (".rxn", ".rdf")
_DAMAGED = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)
#: Encodings by their marks at a file's beginning. That of UTF-32 begins with that of UTF-16.
_MARKS = {
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
#: Columns of identifiers.
NAME_COLUMNS = (
    *("id", "name", "identifier", "title", "compound_name", "compound_id", "compound"),
    *("molecule_name", "molecule_id", "chembl_id", "cid", "catalog_id", "cas"),
)
#: Other kinds of files, by how they begin.
_KINDS = {
    "a zip or Excel file": rb"PK\x03\x04",
    "compressed by gzip, without .gz in its name": rb"\x1f\x8b",
    "compressed by xz, without .xz in its name": rb"\xfd7zXZ",
    "compressed by bzip2": rb"BZh[1-9]1AY",
    "compressed by zstd": rb"\x28\xb5\x2f\xfd",
    "Parquet, which `molspec predict-parquet` reads": rb"PAR1",
    "a tar archive": rb"(?s).{257}ustar",
    # UTF-16, UTF-32 or zeros from the start, or NUL among other control bytes. Else it is of a row.
    "not text": rb"(?s).\0.\0|\0.\0.|.?\0{3}|(?=.*?\0).*?[\x01-\x08\x0e-\x1f]",
}
#: Such kinds of text. A record of SDF may begin in any way: with its title.
_TEXT_KINDS = {
    "a file of reactions, without .rxn or .rdf in its name": rb"\s*\$(RXN|RDFILE)",
    "JSON": rb'\s*(\{|\[\s*["{\[\]])',
    # A tag that text follows is a token of a model, as in "<RX_1> C C O".
    "XML or HTML": rb"\s*<(?![\w|/-]+>[ \t]+[^<\s])",
    "a MOL2 file": rb"(\s*#.*\n)*\s*@<TRIPOS>",
    "a PDB file": rb"(HEADER|COMPND|REMARK|CRYST1|HETATM|ATOM) {2,}",
    "an XYZ file": rb"\s*\d+[ \t\r]*\n.*\n\s*[A-Z][a-z]?([ \t]+-?\d+(\.\d*)?){3}",
    "a file of structures, without .sdf or .mol in its name": rb"(.*\n){3}.*V[23]000[ \r]*\n",
}
#: Endings of files of SMARTS. Some of its patterns are SMILES of other molecules.
_SMARTS = {".sma", ".smarts"}
_READ = "SMILES (.smi), a table (.csv, .tsv) or structures (.sdf, .mol, .rxn, .rdf), or .gz, .xz"
#: Bytes of a file's beginning that tell its kind.
_PEEKED = 4096
#: Maximum characters of a header in an error.
_SHOWN = 200
#: Maximum characters of a line: a small compressed file can contain an endless line.
LONGEST_LINE = 1 << 20
#: Maximum characters of a row of CSV, which may be many lines.
LONGEST_ROW = 2 * LONGEST_LINE
#: Separators of .csv files; the most frequent one in the first line is used.
_SEPARATORS = ",;\t"
#: Files that were told to have other lines than UTF-8: a job may read a file several times.
_told = set[str]()
#: Tables of several columns of SMILES of which it was told which is read.
_chosen = set[Path | str]()
#: Characters that are shown on each side of the first one that is not ASCII.
_BESIDE = 20
_BLANKS = str.maketrans("_-", "  ")


def check_rereadable(path: Path) -> None:
    """Raise ValueError for a pipe or a device: a second reading would miss what the first took."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path} is a pipe or a device: expected a file, which is read twice")


@contextmanager
def open_lines(path: Path, *, records: bool = False) -> Iterator[Iterator[str]]:
    """Open a file and yield its lines, without a byte order mark.

    Text is UTF-8, or UTF-16 or UTF-32 with its mark. A line that is not UTF-8 is read as
    Windows-1252, which Excel and KNIME write, and the first one is told on standard error.

    Raises OSError, naming the file, if it cannot be read, is of a kind that is not read, its
    compressed data are damaged, or a line is longer than `LONGEST_LINE` or no such text.

    records: whether its lines are records of structures.
    """
    with open_bytes(path) as data:
        yield read_lines(data, path, records=records)


def open_bytes(path: Path) -> Any:
    """Open a file, plain or compressed, to read its bytes."""
    return _OPEN.get(path.suffix.lower(), open)(path, "rb")


def read_lines(data: Any, path: Path | str, *, records: bool = False) -> Iterator[str]:
    """The lines of a binary stream, as of `open_lines`; `path` is its name."""
    with _naming(path):
        head = data.peek(_PEEKED)[:_PEEKED]
    marks = (encoding for mark, encoding in _MARKS.items() if head.startswith(mark))
    if (encoding := next(marks, "utf-8-sig")) == "utf-8-sig":
        _check_kind(head.removeprefix(codecs.BOM_UTF8), path, records)
    return _limited(data, encoding, path)


def _limited(data: Any, encoding: str, path: Path | str) -> Iterator[str]:
    # Bytes that are not UTF-8 become surrogates, which stand in no other text.
    errors = "surrogateescape" if encoding == "utf-8-sig" else "strict"
    with _naming(path), TextIOWrapper(data, encoding, errors) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE + 1), ""), start=1):
            if len(line) > LONGEST_LINE:
                fault = f"line {number} is too long: expected at most {LONGEST_LINE:,} characters"
                raise OSError(errno.EFBIG, fault, str(path))
            yield line if line.isascii() else _in_one_encoding(line, number, path)


def _in_one_encoding(line: str, number: int, path: Path | str) -> str:
    """The line, read as Windows-1252 if it is not UTF-8: whole, as a line has one encoding."""
    try:
        line.encode()
        return line
    except UnicodeEncodeError:
        # Five bytes mean nothing there; a row is not worth a file.
        line = line.encode("utf-8", "surrogateescape").decode("cp1252", "replace")
    if str(path) not in _told:
        _told.add(str(path))
        at = next(index for index, each in enumerate(line) if not each.isascii())
        shown = line[max(0, at - _BESIDE) : at + _BESIDE].strip()
        how = "it and others like it are read as Windows-1252"
        print_err(f"{path}, line {number} is not UTF-8: {how}, {shown!r}")
    return line


@contextmanager
def _naming(path: Path | str) -> Iterator[None]:
    """Name the file in errors of reading it."""
    with naming(path):
        try:
            yield
        except (*_DAMAGED, UnicodeDecodeError) as error:
            raise OSError(errno.EIO, f"damaged: {error}", str(path)) from error


def _check_kind(head: bytes, path: Path | str, records: bool) -> None:
    """Raise OSError for the beginning of a file of another kind, which has no lines of SMILES."""
    if not _SMARTS.isdisjoint(map(str.lower, Path(path).suffixes)):
        raise OSError(errno.EINVAL, f"it is SMARTS, by its name: expected {_READ}", str(path))
    for kind, begin in (_KINDS if records else _KINDS | _TEXT_KINDS).items():
        if re.match(begin, head):
            known, _, unlike = kind.partition(", without ")
            if Path(path).suffix.lower() in unlike.split():  # read elsewhere, but not as a table
                raise OSError(errno.EINVAL, f"it is {known}: expected a table", str(path))
            raise OSError(errno.EINVAL, f"it is {kind}: expected {_READ}", str(path))


def read_cells(
    path: Path, *, keep_blanks: bool = False
) -> Generator[tuple[int, list[str]], None, None]:
    """Yield the line number, from 1, and the cells of each row that is not empty.

    Tabs separate cells; in a .csv file commas, semicolons or tabs, the most frequent in the first
    line, with CSV's quotes. A first line `sep=;` names the separator, as Excel writes it. White
    space around a cell is removed, except blanks if they are to be kept.

    Raises ValueError for invalid CSV, OSError like `open_lines`.
    """
    with open_lines(path) as lines:
        commas = ".csv" in map(str.lower, path.suffixes)
        yield from split_cells(lines, commas, path, keep_blanks=keep_blanks)


def split_cells(
    lines: Iterator[str], commas: bool, path: Path | str, *, keep_blanks: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Split lines as `read_cells` does; `path` is their file's name."""
    if commas:
        rows = _comma_separated(lines, path)
    else:
        rows = enumerate((line.split("\t") for line in lines), start=1)
    blank: list[tuple[range, list[str]]] = []  # a sheet may end with a million of them
    for number, row in rows:
        cells = [cell.strip("\r\n" if keep_blanks else None) for cell in row]
        if any(cell.strip() for cell in cells) or (commas and len(cells) == 1):  # "" is a row
            yield from ((each, cells) for numbers, cells in blank for each in numbers)
            blank.clear()
            yield number, cells
        elif len(cells) > 1:  # spreadsheets write such rows behind the last one
            begin = number
            if blank and (blank[-1][0].stop, blank[-1][1]) == (number, cells):
                begin = blank.pop()[0].start
            blank.append((range(begin, number + 1), cells))


def _comma_separated(lines: Iterator[str], path: Path | str) -> Iterator[tuple[int, list[str]]]:
    first = next(lines, "")
    named = re.fullmatch(rf"(?i)sep=([{_SEPARATORS}])\s*", first)
    before, separator = (1, named[1]) if named else (0, max(_SEPARATORS, key=first.count))
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # of the whole process
    lines = lines if named else chain([first], lines)
    size = 0

    def measured() -> Iterator[str]:
        nonlocal size
        for line in lines:
            size += len(line)
            if size > LONGEST_ROW:
                raise csv.Error(f"a row of more than {LONGEST_ROW:,} characters")
            yield line

    reader = csv.reader(measured(), delimiter=separator, strict=True)
    number = before
    try:
        for cells in reader:
            number, size = reader.line_num + before, 0
            yield number, cells
    except csv.Error as error:  # in the row that begins after the last one, and may be many lines
        expected = "expected a row of CSV, whose quotes end"
        raise ValueError(f"{path}, line {number + 1}: {error}: {expected}") from error


def find_column(header: Sequence[str], name: str) -> int | None:
    """The index of a header's column with this name; None if there is none.

    Case matters only if several names differ by it; spaces, underscores and hyphens are equal.

    Raises ValueError if several columns have it.
    """
    names, name = (header, name) if name in header else ([*map(_plain, header)], _plain(name))
    if (count := names.count(name)) > 1:
        raise ValueError(f"{count} columns are called {quoted(name)}: expected one")
    return names.index(name) if count else None


def cell_at(cells: Sequence[str], index: int | None) -> str:
    """A row's cell; "" if the table has no such column, or the row ends before it."""
    return cells[index] if index is not None and index < len(cells) else ""


def first_column(header: Sequence[str], names: Sequence[str]) -> int | None:
    """The index of the first of these names that the header has; None if it has none."""
    found = (find_column(header, name) for name in names)
    return next((index for index in found if index is not None), None)


def _plain(name: str) -> str:
    return name.casefold().translate(_BLANKS)


def printable(path: str | Path) -> str:
    """The name of a file as text: a name may hold bytes that are not UTF-8."""
    return Path(path).name.encode("utf-8", "backslashreplace").decode()


def name_columns(header: Sequence[str]) -> str:
    """The names of a header for an error, truncated if they are many."""
    shown = ", ".join(header)
    return f"{shown[:_SHOWN]}..." if len(shown) > _SHOWN else shown or "which is empty"


def _of_molecules(name: str) -> bool:
    """Whether a column is called one of SMILES, not of reactions."""
    return "smiles" in _plain(name) and not re.search("rxn|reaction", _plain(name))


def with_row_names(
    header: Sequence[str], rows: Iterator[tuple[int, list[str]]], path: Path | str
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """A header and its rows; of R's numbered rows, which have no name there, one that is empty.

    Raises ValueError if the first rows have another cell more than the header: it may be the name
    of a row in R, or something behind the last column.
    """
    first = next(rows, None)
    if first is None:
        return [*header], rows
    number, cells = first
    peeked = [first, *(islice(rows, 2) if len(cells) == len(header) + 1 else ())]
    is_longer = all(len(each) == len(header) + 1 for _, each in peeked)
    is_longer = is_longer and bool(cells[0].strip() and cells[-1].strip())
    if is_longer and cells[0].strip().isdecimal():
        if str(path) not in _told:
            _told.add(str(path))
            print_err(f"{path}: the header has no name for the first column: row names, as R's")
        header = ["", *header]
    elif is_longer and not any("|" in cell for cell in cells):  # a comma may cut an extension
        raise ValueError(
            f"{path}, line {number} has {len(cells)} cells, the header {len(header)}: expected a "
            "name for each column; R's write.table gives row names one by col.names=NA"
        )
    return [*header], chain(peeked, rows)


def choose_column(
    path: Path | str, header: Sequence[str], option: str, name: str | None, defaults: Sequence[str]
) -> int:
    """Find the column that `option` names, or the first of `defaults` that the header has.

    Raises ValueError if there is none.
    """
    if (column := first_column(header, defaults if name is None else (name,))) is not None:
        others = [each for each in header if _of_molecules(each)]
        if name is None and len(others) > 1 and header[column] in others and path not in _chosen:
            _chosen.add(path)
            flag = f"--{option.replace('_', '-')}"
            print_err(f"{path}: of {', '.join(others)}, {header[column]!r} is read; or by {flag}")
        return column
    if name is not None:
        raise wrong(option, name, f"a column of {path}, {name_columns(header)}")
    raise ValueError(
        f"{path}: none of the columns {', '.join(defaults)} is in its header, "
        f"{name_columns(header)}: name another by --{option.replace('_', '-')}, or add a header"
    )
