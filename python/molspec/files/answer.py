"""A file's query, its answer, and the data that all answers of a file share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from molspec.common.task import Task
from molspec.common.workers import DIED

if TYPE_CHECKING:
    from molspec.prediction.results import Prediction, Result


@dataclass(frozen=True)
class Query:
    """A query of a file."""

    smiles: str
    #: Its identifier there, "" if it has none.
    name: str = ""
    #: Why the file's record has no SMILES, otherwise None.
    error: str | None = None
    #: The target to score, if the model does not predict.
    target: str = ""
    #: Cells of its row that are copied to the output.
    columns: tuple[str, ...] = ()
    #: The part of it that is decoded in its place, and why; "" for the query itself. A job resumes
    #: by the repr.
    part: str = field(default="", repr=False)
    note: str = field(default="", repr=False)

    @property
    def decoded(self) -> str:
        """The SMILES that is decoded; "" if the query has an error."""
        return self.part or self.smiles if self.error is None else ""


class Answered(Protocol):
    """An entry of a file of results: one for each query."""

    @property
    def error(self) -> str | None:
        """Why there is no result, otherwise None."""

    @property
    def is_refused(self) -> bool:
        """Whether the query was refused."""

    def failed(self, error: str) -> Any:
        """The entry with an error in place of the result."""


AnswerT = TypeVar("AnswerT", bound=Answered)


@dataclass(frozen=True)
class Answer:
    """The answer to a file's query."""

    #: The number of the query in its file, from 1.
    number: int
    query: Query
    #: Of `Query.decoded`.
    result: Result

    @property
    def identifier(self) -> str:
        """The query's name, or its number if it has none."""
        return self.query.name or str(self.number)

    def note_on(self, prediction: Prediction) -> str:
        """The note, with that of one of the answers."""
        return "; ".join(filter(None, (self.query.note, self.result.doubt(prediction))))

    @property
    def error(self) -> str | None:
        """Why there is no answer, otherwise None."""
        return self.query.error or self.result.error

    def failed(self, error: str) -> Answer:
        """The query with an error in place of the answer."""
        return replace(self, result=replace(self.result, predictions=(), error=error))

    @property
    def is_refused(self) -> bool:
        """Whether the query was refused before any call of the decoder."""
        return self.error not in (None, DIED) and self.result.statistics.decoder_calls == 0


@dataclass(frozen=True)
class OutputContext:
    """The model of the answers, and how they are written.

    as_written: answers have the model's spelling instead of canonical SMILES. Formats for programs
        have both.
    about: a description of the decoding, for people.
    further_columns: further columns of a table, as `files.further_columns` names them.
    copied_columns: names of `Query.columns`.
    """

    model: str
    task: Task | None = None
    as_written: bool = False
    about: str = ""
    further_columns: tuple[str, ...] = ()
    copied_columns: tuple[str, ...] = ()

    def shown(self, prediction: Prediction) -> str | None:
        """The answer in this spelling; None if it is not a molecule, unless `as_written`."""
        if self.as_written and prediction.finished:
            return prediction.smiles
        return prediction.canonical
