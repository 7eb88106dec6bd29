"""Answers as lines of text: for programs, for tables, for files of SMILES, for people."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING

from molspec.files.answer import Answer
from molspec.files.context import OutputContext
from molspec.task import reaction_smiles

if TYPE_CHECKING:
    from molspec.results import Prediction

#: Columns of a table: a row a prediction, or one with the error.
COLUMNS = (
    *("id", "query", "rank", "canonical", "probability", "log_prob"),
    *("finished", "smiles", "note", "error"),
)


def jsonl(answer: Answer, context: OutputContext) -> str:
    """One object."""
    result = answer.result
    values = {
        "id": answer.identifier,
        "query": result.query,
        "predictions": [
            {
                "smiles": prediction.smiles,
                "canonical": prediction.canonical,
                "log_prob": prediction.log_prob,
                "finished": prediction.finished,
                **further_fields(prediction),
            }
            for prediction in result.predictions
        ],
        "note": answer.note or None,
        "error": result.error,
    }
    return json.dumps(values) + "\n"


def further_fields(prediction: Prediction) -> dict[str, int | float]:
    """What samples and relaxed answers have beside other predictions."""
    values: dict[str, int | float] = {}
    if prediction.count > 1:
        values["count"] = prediction.count
    if prediction.inclusion is not None:
        values["inclusion"] = prediction.inclusion
    if prediction.tolerated is not None:
        values["tolerated"] = prediction.tolerated
    return values


def comma_separated(answer: Answer, context: OutputContext) -> str:
    """Quoted where csv asks for it."""
    stream = StringIO()
    csv.writer(stream, lineterminator="\n").writerows(
        [one_line(cell) for cell in row] for row in _rows(answer, context)
    )
    return stream.getvalue()


def tab_separated(answer: Answer, context: OutputContext) -> str:
    """Never quoted: no cell holds a tab."""
    return "".join("\t".join(map(one_line, row)) + "\n" for row in _rows(answer, context))


def _rows(answer: Answer, context: OutputContext) -> Iterator[tuple[str, ...]]:
    result = answer.result
    for rank, prediction in enumerate(result.predictions, start=1):
        yield (
            *(answer.identifier, result.query, str(rank), prediction.canonical or ""),
            *(_probability(prediction), repr(prediction.log_prob)),
            *(str(prediction.finished).lower(), prediction.smiles, answer.note, ""),
            *(repr(getattr(prediction, name)) for name in context.further_columns),
        )
    if not result.predictions:
        yield (
            *(answer.identifier, result.query, "", "", "", "", "", ""),
            *(answer.note, result.error or ""),
            *("" for _ in context.further_columns),
        )


def smiles(answer: Answer, context: OutputContext) -> str:
    """SMILES, identifier, rank, probability; without SMILES where there is no molecule."""
    return _written_lines(answer, context, lambda text: text)


def reactions(answer: Answer, context: OutputContext) -> str:
    """Reaction SMILES, identifier, rank, probability."""
    assert context.task is not None  # the command has asked
    written = partial(reaction_smiles, context.task, answer.result.query.strip())
    return _written_lines(answer, context, written)


def _written_lines(answer: Answer, context: OutputContext, written: Callable[[str], str]) -> str:
    result = answer.result
    rows = [
        (written(text), answer.identifier, str(rank), _probability(prediction))
        if (text := context.shown(prediction))
        else ("", answer.identifier, str(rank), f"error: {fault(prediction)}")
        for rank, prediction in enumerate(result.predictions, start=1)
    ]
    if not result.predictions:
        rows = [("", answer.identifier, "", f"error: {result.error}")]
    return "".join("\t".join(map(one_line, row)) + "\n" for row in rows)


def for_people(answer: Answer, context: OutputContext) -> str:
    """The query, then its answers below each other."""
    result = answer.result
    lines = ["  ".join(filter(None, map(one_line, (result.query, answer.query.name))))]
    if answer.note:
        lines.append(f"   note: {answer.note}")
    if result.error is not None:
        lines.append(f"   error: {result.error}")
    for rank, prediction in enumerate(result.predictions, start=1):
        percent = 100 * math.exp(prediction.log_prob)
        shown = context.shown(prediction)
        what = shown or f"{prediction.smiles} ({fault(prediction)})"
        if prediction.tolerated is not None:
            what += f"  ({prediction.tolerated} tokens tolerated)"
        lines.append(f"{rank:4}.  {percent:5.1f} %  {what}")
    return "\n".join(lines) + "\n"


def fault(prediction: Prediction) -> str:
    """Why a prediction is no molecule."""
    return "not a molecule to RDKit" if prediction.finished else "unfinished"


def _probability(prediction: Prediction) -> str:
    return f"{math.exp(prediction.log_prob):.6g}"


def one_line(text: str) -> str:
    """What is not SMILES may hold what would end a cell or a line."""
    return " ".join(text.split()) if not text.isprintable() else text
