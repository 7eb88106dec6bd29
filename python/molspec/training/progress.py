"""The progress of a preparation, in its folder: an interrupted one resumes from there."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from molspec.common.journal import Journal, Kind
from molspec.prediction.streams import beside
from molspec.training.pairs import Made
from molspec.training.reactions import Row

_Item = TypeVar("_Item")


def _result(value: Any) -> Any:
    (result,) = value
    return result


#: Results as JSON values.
_RECORDS: Kind[Any] = Kind(
    "a preparation", _result, lambda result: [result], "take another output folder to begin anew"
)
_BLOCK = 1 << 20


def digest(file: Path) -> str:
    """32 hexadecimal digits of a file's bytes."""
    made = blake2b(digest_size=16)
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            made.update(block)
    return made.hexdigest()


class Stages:
    """A file for each stage, in the folder `unfinished` of `output`, until all is done.

    settings: the values that decide the results and their items, for JSON.
    """

    def __init__(self, output: Path, settings: Mapping[str, Any]) -> None:
        self.output = output
        self.folder = output / "unfinished"
        self._settings = settings

    def stage(
        self, name: str, items: Iterable[_Item], work: Callable[[Iterator[_Item]], Iterable[Any]]
    ) -> Iterator[tuple[_Item, Any]]:
        """Yield each item with its result, a JSON value: first the recorded ones, then new ones.

        Raises ValueError if the records have other settings, OSError if they cannot be read or
        written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        journal = Journal(self.folder / f"{name}.jsonl", self._settings, _RECORDS)
        rest = iter(items)
        for result in journal.records():
            try:
                item = next(rest)
            except StopIteration:
                raise ValueError(
                    f"output is {self.output}: {name}.jsonl has more records than there are "
                    f"items: {_RECORDS.remedy}"
                ) from None
            yield item, result
        with journal.appending() as append:
            for item, result in beside(rest, work):
                append(result)
                yield item, result

    def make(
        self, name: str, rows: Iterable[Row], work: Callable[[Iterator[Row]], Iterable[Made]]
    ) -> Iterator[Made]:
        """A stage that makes pairs of rows."""

        def outcomes(rows: Iterator[Row]) -> Iterator[list[Any]]:
            for made in work(rows):
                yield [made.split, made.product, made.pairs, made.reason]

        for row, (split, product, pairs, reason) in self.stage(name, rows, outcomes):
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
