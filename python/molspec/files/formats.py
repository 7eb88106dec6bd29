"""Formats of a file of answers, by name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from molspec.common.console import lacks_memory, told
from molspec.files import lines, report, sdf
from molspec.files.answer import Answer, AnswerT, OutputContext


@dataclass(frozen=True)
class Format(Generic[AnswerT]):
    """`head` comes before all answers, `foot` after them; `render` writes one answer.

    `check` raises ValueError if the format cannot be written here. With has_columns it writes every
    field of an answer, and columns of the input.
    """

    render: Callable[[AnswerT, OutputContext], str]
    endings: tuple[str, ...]
    head: Callable[[OutputContext], str] = lambda context: ""
    foot: Callable[[OutputContext], str] = lambda context: ""
    check: Callable[[], None] = lambda: None
    has_columns: bool = False

    def written(self, answer: AnswerT, context: OutputContext) -> tuple[AnswerT, str]:
        """An answer and its text; of one that cannot be written, those of the error."""
        try:
            return answer, self.render(answer, context)
        except Exception as error:
            if lacks_memory(error):
                raise
            failed = answer.failed(told(error))
            return failed, self.render(failed, context)


def table(
    columns: Callable[[OutputContext], Sequence[str]],
    rows: Callable[[AnswerT, OutputContext], Iterable[Sequence[str]]],
    endings: tuple[str, ...],
    written: Callable[[Iterable[Sequence[str]]], str] = lines.in_commas,
) -> Format[AnswerT]:
    """A table: the names of its columns, then the rows of each answer."""
    return Format(
        lambda answer, context: written(rows(answer, context)),
        endings,
        head=lambda context: written([columns(context)]),
        has_columns=True,
    )


FORMATS: dict[str, Format[Answer]] = {
    "text": Format(lines.for_people, (".txt",)),
    "jsonl": Format(lines.jsonl, (".jsonl", ".ndjson"), has_columns=True),
    "csv": table(lines.columns, lines.rows, (".csv",)),
    "tsv": table(lines.columns, lines.rows, (".tsv", ".tab"), lines.in_tabs),
    "smi": Format(lines.smiles, (".smi", ".smiles")),
    "rsmi": Format(lines.reactions, (".rsmi",)),
    "sdf": Format(sdf.write_records, (".sdf", ".sd"), has_columns=True),
    "html": Format(report.section, (".html", ".htm"), report.head, report.foot, report.check),
}


def format_of(name: str, forms: Mapping[str, Format[Any]] = FORMATS) -> str:
    """The name of the format of a file name's ending.

    Raises ValueError if there is none.
    """
    ending = Path(name).suffix.lower()
    for form, values in forms.items():
        if ending in values.endings:
            return form
    known = ", ".join(values.endings[0] for values in forms.values())
    raise ValueError(f"output is {name!r}: expected a name that ends in {known}, or a format")
