"""Formats of a file of answers, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from molspec.files import lines, report, sdf
from molspec.files.answer import Answer, AnswerT
from molspec.files.context import OutputContext


def _nothing(context: OutputContext) -> str:
    return ""


@dataclass(frozen=True)
class Format(Generic[AnswerT]):
    """`head` comes before all answers, `foot` after them; `render` gives all of one.

    `check` raises ValueError where the form cannot be written here.
    """

    render: Callable[[AnswerT, OutputContext], str]
    endings: tuple[str, ...]
    head: Callable[[OutputContext], str] = _nothing
    foot: Callable[[OutputContext], str] = _nothing
    check: Callable[[], None] = lambda: None


FORMATS: dict[str, Format[Answer]] = {
    "text": Format(lines.for_people, (".txt",)),
    "jsonl": Format(lines.jsonl, (".jsonl", ".ndjson")),
    "csv": Format(lines.comma_separated, (".csv",), lines.comma_separated_header),
    "tsv": Format(lines.tab_separated, (".tsv", ".tab"), lines.tab_separated_header),
    "smi": Format(lines.smiles, (".smi", ".smiles")),
    "rsmi": Format(lines.reactions, (".rsmi",)),
    "sdf": Format(sdf.write_records, (".sdf", ".sd")),
    "html": Format(report.section, (".html", ".htm"), report.head, report.foot, report.check),
}


def format_of(name: str, forms: Mapping[str, Format[Any]] = FORMATS) -> str:
    """Name of the form that a file's name asks for.

    Raises ValueError where it asks for none.
    """
    ending = Path(name).suffix.lower()
    for form, values in forms.items():
        if ending in values.endings:
            return form
    known = ", ".join(values.endings[0] for values in forms.values())
    raise ValueError(f"output is {name!r}: expected a name that ends in {known}, or a format")
