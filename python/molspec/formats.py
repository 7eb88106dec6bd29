"""Results as text: for programs (jsonl, tsv) and for people (text)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from molspec.results import Result


class Format(NamedTuple):
    """`header` comes before all results; `render` gives the whole lines of one."""

    header: str
    render: Callable[[Result], str]


def _jsonl(result: Result) -> str:
    predictions = [
        {
            "smiles": prediction.smiles,
            "log_prob": prediction.log_prob,
            "finished": prediction.finished,
        }
        for prediction in result.predictions
    ]
    values = {"query": result.query, "predictions": predictions, "error": result.error}
    return json.dumps(values) + "\n"


def _tsv(result: Result) -> str:
    rows = [
        (
            result.query,
            str(rank),
            prediction.smiles,
            repr(prediction.log_prob),
            str(prediction.finished).lower(),
            "",
        )
        for rank, prediction in enumerate(result.predictions, start=1)
    ]
    if result.error is not None:
        rows.append((result.query, "", "", "", "", result.error))
    return "".join("\t".join(map(_one_cell, row)) + "\n" for row in rows)


def _one_cell(text: str) -> str:
    """Only a query that is not SMILES holds what would end a cell or a line."""
    return " ".join(text.split()) if any(space in text for space in "\t\r\n") else text


def _text(result: Result) -> str:
    lines = [_one_cell(result.query)]
    if result.error is not None:
        lines.append(f"   error: {result.error}")
    for rank, prediction in enumerate(result.predictions, start=1):
        percent = 100 * math.exp(prediction.log_prob)
        unfinished = "" if prediction.finished else " (unfinished)"
        lines.append(f"{rank:4}.  {percent:5.1f} %  {prediction.smiles}{unfinished}")
    return "\n".join(lines) + "\n"


FORMATS = {
    "jsonl": Format("", _jsonl),
    "tsv": Format("query\trank\tsmiles\tlog_prob\tfinished\terror\n", _tsv),
    "text": Format("", _text),
}
