"""Forms of a file of answers, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from molspec.files import lines, report, sdf
from molspec.files.answer import Answer, AnswerT
from molspec.files.sheet import Sheet


def _nothing(sheet: Sheet) -> str:
    return ""


def _columns(separator: str) -> Callable[[Sheet], str]:
    return lambda sheet: separator.join((*lines.COLUMNS, *sheet.further_columns)) + "\n"


@dataclass(frozen=True)
class Form(Generic[AnswerT]):
    """`head` comes before all answers, `foot` behind them; `render` gives all of one.

    `check` raises ValueError where the form cannot be written here.
    """

    render: Callable[[AnswerT, Sheet], str]
    endings: tuple[str, ...]
    head: Callable[[Sheet], str] = _nothing
    foot: Callable[[Sheet], str] = _nothing
    check: Callable[[], None] = lambda: None


FORMS: dict[str, Form[Answer]] = {
    "text": Form(lines.for_people, (".txt",)),
    "jsonl": Form(lines.jsonl, (".jsonl", ".ndjson")),
    "csv": Form(lines.comma_separated, (".csv",), _columns(",")),
    "tsv": Form(lines.tab_separated, (".tsv", ".tab"), _columns("\t")),
    "smi": Form(lines.smiles, (".smi", ".smiles")),
    "rsmi": Form(lines.reactions, (".rsmi",)),
    "sdf": Form(lambda answer, sheet: sdf.write_records(answer), (".sdf", ".sd")),
    "html": Form(report.section, (".html", ".htm"), report.head, report.foot, report.check),
}


def form_of(name: str, forms: Mapping[str, Form[Any]] = FORMS) -> str:
    """Name of the form that a file's name asks for.

    Raises ValueError where it asks for none.
    """
    ending = Path(name).suffix.lower()
    for form, values in forms.items():
        if ending in values.endings:
            return form
    known = ", ".join(values.endings[0] for values in forms.values())
    raise ValueError(f"output is {name!r}: expected a name that ends in {known}, or a format")
