"""What a preparation has done, kept in its folder: one that was killed goes on from there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from molspec.journal import Journal, Kind
from molspec.training.pairs import Made
from molspec.training.reactions import Row

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

#: Records are JSON values; who reads them knows the items that they are of.
_RECORDS: Kind[Any] = Kind("a preparation", lambda value: value, lambda value: value)


def check_output(output: Path) -> None:
    """Raise ValueError where something else than a preparation that was begun is at `output`."""
    if not output.exists() or (output / "unfinished").is_dir():
        return
    if not output.is_dir() or any(output.iterdir()):  # killed at once, it leaves an empty folder
        raise ValueError(f"output is {output}: it exists already")


class Progress:
    """A file for each stage, in the folder `unfinished` of `output`, until all is done.

    settings: what decides the results, as JSON values.

    Raises ValueError where `output` is there and is no preparation that was begun.
    """

    def __init__(self, output: Path, settings: Mapping[str, Any]) -> None:
        self.output = output
        self.folder = output / "unfinished"
        self._settings = settings
        check_output(output)

    def stage(
        self,
        name: str,
        items: Iterable[_Item],
        work: Callable[[Iterator[_Item]], Iterable[_Result]],
        read: Callable[[_Item, Any], _Result | None],
        written: Callable[[_Result], Any],
    ) -> Iterator[_Result]:
        """Results of `work`, one an item, in their order: those that are recorded, then the rest.

        `read` gives a recorded result, None where it is one of another item.

        Raises ValueError where the records are of other settings or items, OSError where they
        cannot be read or written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.jsonl"
        journal = Journal(path, self._settings, _RECORDS)
        rest = iter(items)
        for number, value in enumerate(journal.records(), start=2):
            result = None
            for item in islice(rest, 1):
                with suppress(ValueError, TypeError):  # of a line that is something else
                    result = read(item, value)
            if result is None:
                raise ValueError(
                    f"output is {self.output}: it was begun with other reactions ({path}, line "
                    f"{number}): take another folder to begin anew"
                )
            yield result
        with journal.appending() as append:
            for result in work(rest):
                append(written(result))
                yield result

    def make(
        self, name: str, rows: Iterable[Row], work: Callable[[Iterator[Row]], Iterable[Made]]
    ) -> Iterator[Made]:
        """A stage that makes pairs of rows."""
        return self.stage(name, rows, work, _read_made, _written_made)

    def discard(self) -> None:
        """Forget it, with the output where nothing else is in it."""
        shutil.rmtree(self.folder)
        if not any(self.output.iterdir()):
            self.output.rmdir()

    def commit(self, last: str) -> None:
        """Move what is in `folder`/done to the output, the file `last` at the end."""
        done = self.folder / "done"
        for file in sorted(done.iterdir(), key=lambda file: (file.name == last, file.name)):
            file.replace(self.output / file.name)
        self.discard()


def _read_made(row: Row, value: list[Any]) -> Made | None:
    found, split, product, pairs, reason = value
    if Row(*found) != row:
        return None
    return Made(row, split, product, tuple((source, target) for source, target in pairs), reason)


def _written_made(made: Made) -> list[Any]:
    row = [made.row.file, made.row.number, made.row.reaction]
    return [row, made.split, made.product, made.pairs, made.reason]
