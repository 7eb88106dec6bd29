"""Answers as lines of text: for programs, for tables, for files of SMILES, for people."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any

from molspec.common.console import printed, shortened
from molspec.common.task import reaction_smiles
from molspec.files.answer import Answer, OutputContext, Query

if TYPE_CHECKING:
    from molspec.prediction.options import PredictOptions
    from molspec.prediction.results import Prediction

#: Columns of a table, which has a row for each prediction, or one with the error.
_OF_PREDICTIONS = ("canonical", "probability", "log_prob", "finished", "smiles")
COLUMNS = ("id", "query", "rank", *_OF_PREDICTIONS, "note", "error")


def jsonl(answer: Answer, context: OutputContext) -> str:
    """One object."""
    result = answer.result
    values: dict[str, Any] = {
        "id": answer.identifier,
        "query": answer.query.smiles,
        "predictions": [
            {**each.told(), "note": result.doubt(each) or None} for each in result.predictions
        ],
        "note": answer.query.note or None,
        "error": answer.error,
    }
    if context.copied_columns:
        values["columns"] = copied(answer.query, context)
    return json.dumps(values) + "\n"


def further_columns(options: PredictOptions) -> tuple[str, ...]:
    """Fields of predictions with these options that are not in `COLUMNS`."""
    from molspec.prediction.results import answer_fields

    wanted = (each.name for each in answer_fields() if each.is_given(options))
    return tuple(name for name in wanted if name not in COLUMNS)


def cell(value: object) -> str:
    """A field of a prediction in the form of tables: a list in that of JSON."""
    if isinstance(value, bool | tuple):
        return json.dumps(value)
    return value if isinstance(value, str) else repr(value)


def copied(query: Query, context: OutputContext) -> dict[str, str]:
    """Cells of the query's row, by their columns."""
    return dict(zip(context.copied_columns, query.columns, strict=True))


def in_commas(rows: Iterable[Sequence[str]]) -> str:
    """Rows of a table, quoted where CSV needs it."""
    stream = StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(one_line, row) for row in rows)
    return stream.getvalue()


def in_tabs(rows: Iterable[Sequence[str]]) -> str:
    """Rows of a table, never quoted: no cell has a tab."""
    return "".join("\t".join(map(one_line, row)) + "\n" for row in rows)


def columns(context: OutputContext) -> tuple[str, ...]:
    """Names of a table's columns."""
    return (*COLUMNS, *context.further_columns, *context.copied_columns)


def rows(answer: Answer, context: OutputContext) -> Iterator[tuple[str, ...]]:
    """A row for each prediction, or one with the error."""
    shared = {"id": answer.identifier, "query": answer.query.smiles}
    found = [
        {
            **{name: cell(value) for name, value in prediction.to_json().items()},
            **shared,
            "rank": str(rank),
            "canonical": prediction.canonical or "",
            "probability": probability(prediction),
            "note": answer.note_on(prediction),
        }
        for rank, prediction in enumerate(answer.result.predictions, start=1)
    ]
    for values in found or [{**shared, "note": answer.query.note, "error": answer.error or ""}]:
        cells = (values.get(name, "") for name in (*COLUMNS, *context.further_columns))
        yield (*cells, *answer.query.columns)


def smiles(answer: Answer, context: OutputContext) -> str:
    """SMILES, identifier, rank, probability, doubt; without SMILES if there is no molecule."""
    return _written_lines(answer, context, lambda text: text)


def reactions(answer: Answer, context: OutputContext) -> str:
    """Reaction SMILES, identifier, rank, probability, doubt."""
    assert context.task is not None  # checked by the command
    written = partial(reaction_smiles, context.task, answer.query.smiles.partition(" |")[0].strip())
    return _written_lines(answer, context, written)


def _written_lines(answer: Answer, context: OutputContext, written: Callable[[str], str]) -> str:
    name, result = answer.identifier, answer.result
    cells = [
        (written(text), name, str(rank), probability(each), *filter(None, [result.doubt(each)]))
        if (text := context.shown(each))
        else ("", name, str(rank), f"error: {fault(each)}")
        for rank, each in enumerate(result.predictions, start=1)
    ]
    if not result.predictions:
        cells = [("", name, "", f"error: {answer.error or 'no answer'}")]
    return in_tabs(cells)


def for_people(answer: Answer, context: OutputContext) -> str:
    """The query, then its answers below each other."""
    result = answer.result
    lines = [heading(answer)]
    if answer.query.note:
        lines.append(f"   note: {answer.query.note}")
    if not result.predictions:
        lines.append(f"   error: {answer.error or 'no answer'}")
    for rank, prediction in enumerate(result.predictions, start=1):
        shown = context.shown(prediction)
        what = shown or f"{prediction.smiles} ({fault(prediction)})"
        for remark in (*prediction.remarks(), result.doubt(prediction)):
            what += f"  ({remark})" if remark else ""
        lines.append(f"{rank:4}.  {100 * prediction.probability:5.1f} %  {what}")
    return "\n".join(lines) + "\n"


def heading(answer: Any) -> str:
    """The query and its name for people; those of an error may be of any length."""
    line = "  ".join(filter(None, map(one_line, (answer.query.smiles, answer.query.name))))
    return shortened(line) if answer.error else line


def fault(prediction: Prediction) -> str:
    """Why a prediction is not a molecule."""
    return "not a molecule to RDKit" if prediction.finished else "unfinished"


def probability(prediction: Prediction) -> str:
    """A number in the form of files."""
    return f"{prediction.probability:.6g}"


def one_line(text: str) -> str:
    """Remove characters that would end a cell or a line, or steer a terminal."""
    return printed(" ".join(text.split())) if not text.isprintable() else text
