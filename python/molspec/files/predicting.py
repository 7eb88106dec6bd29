"""Queries of a file, decoded by a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from molspec.files.answer import Answer, Query

if TYPE_CHECKING:
    from molspec.common.workers import Processes
    from molspec.prediction.config import AnyOptions
    from molspec.prediction.model import Model
    from molspec.prediction.results import Result


def predict(
    model: Model,
    queries: Iterable[Query],
    options: AnyOptions,
    *,
    done: int = 0,
    keep_salts: bool = False,
    processes: Processes = 1,
) -> Iterator[Answer]:
    """Answer the queries in their order, reading them when they are needed.

    done: the number of queries before these.
    keep_salts: decode salts and mixtures unchanged; otherwise a model of reactants decodes the
        molecule of a salt, and the answer says so, and several molecules are an error.
    processes: as of `Model.predict_stream`.

    Raises ValueError if the model cannot be used with the options.
    """
    from molspec.prediction.streams import beside

    def results(queries: Iterator[Query]) -> Iterator[Result]:
        smiles = (each.decoded for each in queries)
        return model.predict_stream(smiles, options, processes=processes)

    main = model.task == "retro" and not keep_salts
    answered = beside((prepare_query(query, main) for query in queries), results)
    return (
        Answer(number, query, result)
        for number, (query, result) in enumerate(answered, start=done + 1)
    )


def score(
    model: Model,
    queries: Iterable[Query],
    *,
    done: int = 0,
    processes: Processes = 1,
    **options: Any,
) -> Iterator[Answer]:
    """Score the queries' targets in their order, reading them when they are needed.

    The options are those of `Model.log_probs_stream`. Raises ValueError if one is invalid.
    """
    from molspec.prediction.streams import beside

    def results(queries: Iterator[Query]) -> Iterator[Result]:
        pairs = ((query.smiles, query.target) for query in queries)
        return model.log_probs_stream(pairs, processes=processes, **options)

    return (
        Answer(number, query, result)
        for number, (query, result) in enumerate(beside(queries, results), start=done + 1)
    )


def prepare_query(query: Query, main: bool) -> Query:
    """The query, with `main` decoded as the molecule of a salt; several molecules get an error."""
    if not main or {".", "~"}.isdisjoint(query.smiles):
        return query
    from molspec.text.salts import main_component

    try:
        smiles, removed = main_component(query.smiles)
    except ValueError as error:
        return replace(query, error=str(error))
    if not removed:
        return query
    less = "once" if removed == (smiles,) else f"without {'.'.join(removed)}"
    return replace(query, part=smiles, note=f"decoded as {smiles}, {less}")
