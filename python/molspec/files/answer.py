"""A query as a file has it, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from molspec.results import Result


@dataclass(frozen=True)
class Query:
    """A query of a file."""

    smiles: str
    #: Its identifier there, "" where it has none.
    name: str = ""
    #: Why the file's record is no SMILES, where it is none.
    error: str | None = None


@dataclass(frozen=True)
class Answer:
    """The answer to a file's query."""

    #: Place of the query in its file, from 1.
    number: int
    query: Query
    result: Result
    #: What was asked in place of the query, and why; "" where it was asked as it is.
    note: str = ""

    @property
    def identifier(self) -> str:
        """The query's name; its number where it has none."""
        return self.query.name or str(self.number)
