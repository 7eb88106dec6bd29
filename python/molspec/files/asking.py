"""Queries of a file, decoded by a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from molspec.files.answer import Answer, Query

if TYPE_CHECKING:
    from molspec.options import PredictOptions
    from molspec.predictor import Model
    from molspec.processes import Processes
    from molspec.results import Result
    from molspec.task import Task


@dataclass(frozen=True)
class PreparedQuery:
    """A query, and the SMILES that is decoded for it."""

    query: Query
    smiles: str
    #: The SMILES that is decoded in place of the query, and why; "" for the query itself.
    note: str = ""


def ask(
    model: Model,
    queries: Iterable[Query],
    options: PredictOptions,
    *,
    done: int = 0,
    strip_salts: bool = False,
    processes: Processes = 1,
) -> Iterator[Answer]:
    """Answer every query, in their order, read as they are needed.

    done: queries that come before these.
    strip_salts: ask without counter-ions and solvents, and say so.
    processes: as of `Model.predict_stream`.

    Raises ValueError where the model cannot be used with the options, or salts are no salts to it.
    """
    check_salts(strip_salts, model.task)
    from molspec.streams import beside

    hinted = is_hinted(strip_salts, model.task)

    def results(prepared: Iterator[PreparedQuery]) -> Iterator[Result]:
        smiles = (each.smiles for each in prepared)
        return model.predict_stream(smiles, options, processes=processes)

    answered = beside((prepare_query(query, strip_salts) for query in queries), results)
    return (
        answer_to(number, prepared, result, hinted)
        for number, (prepared, result) in enumerate(answered, start=done + 1)
    )


def score(
    model: Model,
    queries: Iterable[Query],
    *,
    done: int = 0,
    processes: Processes = 1,
    **options: Any,
) -> Iterator[Answer]:
    """Score the target of every query, in their order, read as they are needed.

    The options are those of `Model.log_probs_stream`. Raises ValueError where one makes no sense.
    """
    from molspec.streams import beside

    def results(queries: Iterator[Query]) -> Iterator[Result]:
        pairs = ((query.smiles, query.target) for query in queries)
        return model.log_probs_stream(pairs, processes=processes, **options)

    return (
        Answer(number, query, result)
        for number, (query, result) in enumerate(beside(queries, results), start=done + 1)
    )


def check_salts(strip_salts: bool, task: Task | None) -> None:
    """Raise ValueError where salts are to be taken off that are no salts to the model."""
    if strip_salts and task == "product":
        raise ValueError("strip_salts is set: expected not, salts among reactants are reagents")


def is_hinted(strip_salts: bool, task: Task | None) -> bool:
    """Whether an error names the query without its salts."""
    return task == "retro" and not strip_salts


def prepare_query(query: Query, strip_salts: bool) -> PreparedQuery:
    """The query, without counter-ions and solvents where that is wanted."""
    if strip_salts:
        from molspec.text.salts import without_salts

        smiles, removed = without_salts(query.smiles)
        if removed:
            return PreparedQuery(query, smiles, f"decoded without {'.'.join(removed)}, as {smiles}")
    return PreparedQuery(query, query.smiles)


def answer_to(number: int, prepared: PreparedQuery, result: Result, hinted: bool) -> Answer:
    """The answer to a query from the result of its prepared query.

    hinted: an error names the query without its salts.
    """
    error = prepared.query.error or result.error
    if error and hinted:
        error += _hint(prepared.smiles)
    result = replace(result, query=prepared.query.smiles, error=error)
    return Answer(number, prepared.query, result, prepared.note)


def _hint(smiles: str) -> str:
    """The query that could replace a salt that was refused."""
    from molspec.text.salts import without_salts

    parent, removed = without_salts(smiles)
    return f"; --strip-salts would ask {parent}, without {'.'.join(removed)}" if removed else ""
