"""Queries of a file, decoded by a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from molspec.common.console import told
from molspec.files.answer import Answer, Query
from molspec.files.racemates import read_racemate

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
    deuterium_as_hydrogen: bool = False,
    processes: Processes = 1,
) -> Iterator[Answer]:
    """Answer the queries in their order, reading them when they are needed.

    done: the number of queries before these.
    keep_salts: decode salts and mixtures unchanged; otherwise a model of reactants decodes the
        molecule of a salt, and the answer says so, and several molecules are an error.
    deuterium_as_hydrogen: for a model whose vocabulary lacks deuterium; the answer says so.
    processes: as of `Model.predict_stream`.

    Raises ValueError if the model cannot be used with the options.
    """
    main = model.task == "retro" and not keep_salts
    hydrogen = deuterium_as_hydrogen and model.lacks_deuterium

    def results(queries: Iterator[Query]) -> Iterator[Result]:
        smiles = (each.decoded for each in queries)
        return model.predict_stream(smiles, options, processes=processes)

    return _answers((prepare_query(query, main, hydrogen) for query in queries), results, done)


def score(
    model: Model,
    queries: Iterable[Query],
    *,
    done: int = 0,
    deuterium_as_hydrogen: bool = False,
    **options: Any,
) -> Iterator[Answer]:
    """Score the queries' targets in their order, reading them when they are needed.

    The options are those of `Model.log_probs_stream`. Raises ValueError if one is invalid.
    """
    hydrogen = deuterium_as_hydrogen and model.lacks_deuterium

    def results(queries: Iterator[Query]) -> Iterator[Result]:
        pairs = ((query.decoded, query.target) for query in queries)
        return model.log_probs_stream(pairs, **options)

    return _answers((prepare_query(query, False, hydrogen) for query in queries), results, done)


def _answers(
    queries: Iterable[Query], results: Callable[[Iterator[Query]], Iterator[Result]], done: int
) -> Iterator[Answer]:
    from molspec.prediction.streams import beside

    answered = enumerate(beside(queries, results), start=done + 1)
    return (Answer(number, query, result) for number, (query, result) in answered)


def prepare_query(query: Query, main: bool, hydrogen: bool = False) -> Query:
    """The query, with `main` decoded as the molecule of a salt; several molecules get an error.

    hydrogen: read deuterium as hydrogen.
    """
    try:
        return _prepared(query, main, hydrogen)
    except Exception as error:
        return replace(query, error=told(error, (ValueError,)))


def _prepared(query: Query, main: bool, hydrogen: bool) -> Query:
    """`prepare_query`. Raises ValueError for several molecules."""
    smiles, why = query.smiles, []
    try:
        racemate = read_racemate(smiles)
    except ValueError as error:
        return replace(query, error=str(error))
    if racemate is not None:
        smiles, why = racemate.decoded, ["which stands for the racemate"]
    if hydrogen and "[2H" in smiles:
        from molspec.text import without_deuterium

        if (plain := without_deuterium(smiles)) != smiles:
            smiles = plain
            why.append("with hydrogen for deuterium")
    if main and not {".", "~"}.isdisjoint(smiles):
        from molspec.text.salts import main_component

        smiles, removed = main_component(smiles)
        if removed:
            why.append("once" if removed == (smiles,) else f"without {'.'.join(removed)}")
    if not why:
        return query
    return replace(query, part=smiles, note=f"decoded as {smiles}, {', '.join(why)}")
