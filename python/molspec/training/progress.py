"""The progress of a preparation, in its folder: an interrupted one resumes from there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from molspec.common.journal import Journal, Kind
from molspec.prediction.streams import beside
from molspec.training.pairs import Made
from molspec.training.prepared import LAST
from molspec.training.reactions import Row

_Item = TypeVar("_Item")


def _record(value: Any) -> tuple[Any, Any]:
    key, result = value
    return key, result


#: An item's key and its result, as JSON values.
_RECORDS: Kind[tuple[Any, Any]] = Kind("a preparation", _record, list)


def check_output(output: Path) -> None:
    """Raise ValueError if `output` exists and is not a preparation."""
    if not output.exists() or (output / "unfinished").is_dir():
        return
    # An early kill leaves an empty folder.
    if not output.is_dir() or not ((output / LAST).is_file() or not any(output.iterdir())):
        raise ValueError(f"output is {output}: it exists already")


class Stages:
    """A file for each stage, in the folder `unfinished` of `output`, until all is done.

    settings: that decide the results, as JSON values.
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
        """Yield each item with its result, a JSON value: first the recorded ones, then new ones.

        `work` makes results; `key` returns an item's key, as JSON values.

        Raises ValueError if the records have other settings or items, OSError if they cannot be
        read or written.
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
        """Remove the folder, and the output if it is empty then."""
        shutil.rmtree(self.folder)
        if not any(self.output.iterdir()):
            self.output.rmdir()

    def commit(self, last: str) -> None:
        """Move the files of `folder`/done to the output, the file `last` at the end."""
        done = self.folder / "done"
        for file in sorted(done.iterdir(), key=lambda file: (file.name == last, file.name)):
            file.replace(self.output / file.name)
        self.discard()
