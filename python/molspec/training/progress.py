"""What a preparation has done, in its folder: one that was killed resumes from there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from molspec.journal import Journal, Kind
from molspec.streams import beside
from molspec.training.pairs import Made
from molspec.training.reactions import Row

_Item = TypeVar("_Item")


def _record(value: Any) -> tuple[Any, Any]:
    key, result = value
    return key, result


#: What tells an item from others, and the result of it: JSON values.
_RECORDS: Kind[tuple[Any, Any]] = Kind("a preparation", _record, list)


def check_output(output: Path) -> None:
    """Raise ValueError if something else than a preparation that was begun is at `output`."""
    if not output.exists() or (output / "unfinished").is_dir():
        return
    if not output.is_dir() or any(output.iterdir()):  # killed at once, it leaves an empty folder
        raise ValueError(f"output is {output}: it exists already")


class Progress:
    """A file for each stage, in the folder `unfinished` of `output`, until all is done.

    settings: what decides the results, as JSON values.
    """

    def __init__(self, output: Path, settings: Mapping[str, Any]) -> None:
        self.output = output
        self.folder = output / "unfinished"
        self._settings = settings

    def stage(
        self,
        name: str,
        items: Iterable[_Item],
        work: Callable[[Iterator[_Item]], Iterable[Any]],
        key: Callable[[_Item], Any],
    ) -> Iterator[tuple[_Item, Any]]:
        """Give each item with its result, a JSON value: the recorded ones, then those of `work`.

        `key` gives what tells an item from others, as JSON values.

        Raises ValueError if the records are of other settings or items, OSError if they
        cannot be read or written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.jsonl"
        journal = Journal(path, self._settings, _RECORDS)
        rest = iter(items)
        for number, (found, result) in enumerate(journal.records(), start=2):
            item = next(rest, None)
            if item is None or found != key(item):
                raise ValueError(
                    f"output is {self.output}: it was begun with other reactions ({path}, line "
                    f"{number}): take another folder to begin anew"
                )
            yield item, result
        with journal.appending() as append:
            for item, result in beside(rest, work):
                append((key(item), result))
                yield item, result

    def make(
        self, name: str, rows: Iterable[Row], work: Callable[[Iterator[Row]], Iterable[Made]]
    ) -> Iterator[Made]:
        """A stage that makes pairs of rows."""

        def outcomes(rows: Iterator[Row]) -> Iterator[list[Any]]:
            for made in work(rows):
                yield [made.split, made.product, made.pairs, made.reason]

        found = self.stage(name, rows, outcomes, lambda row: [*vars(row).values()])
        for row, (split, product, pairs, reason) in found:
            yield Made(row, split, product, [(source, target) for source, target in pairs], reason)

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
