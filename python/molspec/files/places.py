"""Checks where a job writes: not over a file that it reads, and not in place of a link."""

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import TypeAlias

#: A file, a folder with all its files, or the number of an open file.
_Read: TypeAlias = str | Path | int
#: A job's inputs by option, one or several, or None.
Reads: TypeAlias = Mapping[str, _Read | Sequence[_Read] | None]
_Identity: TypeAlias = tuple[int, int] | str


def check_apart(reads: Reads, writes: Iterable[Path | int]) -> None:
    """Check that no file to be written or removed is an input, even under another name.

    Raises ValueError, naming the option, if device and inode are equal, or the future paths are.
    """
    read: dict[_Identity | None, tuple[str, _Read]] = {
        identity: (option, path)
        for option, given in reads.items()
        if given is not None
        for path in ([given] if isinstance(given, _Read) else given)
        for file in _files(path)
        if (identity := _identity(file)) is not None
    }
    for file in writes:
        identity = _identity(file)
        if identity in read:
            option, path = read[identity]
            written = "standard output" if isinstance(file, int) else file
            raise ValueError(
                f"the job would write or remove {written}, which it reads as {option} {path}: "
                "expected another output"
            )


def _files(path: _Read) -> Iterable[_Read]:
    if isinstance(path, int) or not Path(path).is_dir():
        return [path]
    return Path(path).rglob("*")


def _identity(file: _Read) -> _Identity | None:
    """Device and inode of a regular file: a terminal may be read and written."""
    try:
        status = os.stat(file)
    except OSError:
        return None if isinstance(file, int) else os.path.realpath(file)
    return (status.st_dev, status.st_ino) if S_ISREG(status.st_mode) else None


def output_path(path: Path) -> Path:
    """The file to be written: `path`, or the file that it links to.

    Raises OSError, naming it, if no file can be there.
    """
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    code = 0 if path.parent.is_dir() else errno.ENOENT
    code = errno.EISDIR if path.is_dir() else errno.ELOOP if path.is_symlink() else code
    if code:
        raise OSError(code, os.strerror(code), str(path))
    return path
