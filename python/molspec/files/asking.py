"""Queries of a file asked of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import tee
from typing import TYPE_CHECKING

from molspec.files.answer import Answer, Query

if TYPE_CHECKING:
    from molspec.options import PredictOptions
    from molspec.predictor import Model
    from molspec.results import Result


@dataclass(frozen=True)
class _Asked:
    query: Query
    smiles: str
    note: str


def ask(
    model: Model,
    queries: Iterable[Query],
    options: PredictOptions,
    *,
    done: int = 0,
    strip_salts: bool = False,
) -> Iterator[Answer]:
    """Answer every query, in their order, read as they are needed.

    done: queries that come before these.
    strip_salts: ask without counter-ions and solvents, and say so.

    Raises ValueError where the model cannot be used with the options, or salts are no salts to it.
    """
    if strip_salts and model.task == "product":
        raise ValueError("strip_salts is set: expected not, salts among reactants are reagents")
    asked, ahead = tee(_asked(query, strip_salts) for query in queries)
    results = model.predict_stream((each.smiles for each in ahead), options)
    return _answers(asked, results, done, hinted=model.task == "retro" and not strip_salts)


def _asked(query: Query, strip_salts: bool) -> _Asked:
    if strip_salts:
        from molspec.text.salts import without_salts

        smiles, removed = without_salts(query.smiles)
        if removed:
            return _Asked(query, smiles, f"asked without {'.'.join(removed)}, as {smiles}")
    return _Asked(query, query.smiles, "")


def _answers(
    asked: Iterator[_Asked], results: Iterator[Result], done: int, hinted: bool
) -> Iterator[Answer]:
    for number, result in enumerate(results, start=done + 1):
        each = next(asked)
        error = each.query.error or result.error
        if error and hinted:
            error += _hint(each.smiles)
        result = replace(result, query=each.query.smiles, error=error)
        yield Answer(number, each.query, result, each.note)


def _hint(smiles: str) -> str:
    """What could be asked in place of a salt that was refused."""
    from molspec.text.salts import without_salts

    parent, removed = without_salts(smiles)
    return f"; --strip-salts would ask {parent}, without {'.'.join(removed)}" if removed else ""
