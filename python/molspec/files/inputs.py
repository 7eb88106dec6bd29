"""Several files of queries, read one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any

from molspec.files.answer import Query
from molspec.files.sources import GIVEN, QueryFile, open_source


class QueryFiles:
    """Files of queries that are open, in their order."""

    def __init__(self, files: Sequence[QueryFile]) -> None:
        self._files = files
        self.name = ", ".join(file.name for file in files)
        #: Whether the queries are not in a file.
        self.are_given = files[0].form == GIVEN

    def queries(self, *arguments: Any, **options: Any) -> Iterator[Query]:
        """The queries of all files, each read as by `QueryFile.queries`.

        Raises ValueError, before the first query, if a file has no such column.
        """
        return chain.from_iterable([file.queries(*arguments, **options) for file in self._files])

    def count(self) -> int | None:
        """About how many queries there are; None if a file cannot be read twice."""
        counts = [file.count() for file in self._files]
        return None if None in counts else sum(filter(None, counts))


@contextmanager
def open_sources(
    names: Sequence[str] | None, form: str | None = None, given: Iterable[str] = ()
) -> Iterator[QueryFiles]:
    """Open files, or the `given` queries if there are none, as `open_source` does."""
    with ExitStack() as opened:
        every: Sequence[str | None] = names or [None]
        files = (open_source(name, form, given) for name in every)
        yield QueryFiles([opened.enter_context(file) for file in files])
