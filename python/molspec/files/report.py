"""A page of drawings and probabilities, in one file that any browser shows."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from molspec.files.answer import Answer, OutputContext
from molspec.files.lines import fault, one_line

if TYPE_CHECKING:
    from molspec.prediction.results import Prediction

#: Titles, and the names of queries and answers, by task.
_WORDS = {
    "retro": ("Predicted reactants", "product", "reactants"),
    "product": ("Predicted products", "reactants", "product"),
    None: ("Predictions", "query", "answer"),
}


def check() -> None:
    """Raise ValueError if RDKit cannot draw: it needs some of the system's libraries."""
    try:
        import rdkit.Chem.Draw  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"format is 'html': RDKit cannot draw here, {error}; Debian has it in libxrender1 and "
            "libxext6"
        ) from error


def head(context: OutputContext) -> str:
    """Everything before the first query."""
    about = (
        f"{context.about} A percentage is the probability that the model gives to an answer, not "
        "that the reaction works."
    )
    return page_head(f"{_WORDS[context.task][0]}: {context.model}", about)


def page_head(title: str, about: str) -> str:
    """Everything of a page before its sections."""
    page = Template(Path(__file__).with_name("report.html").read_text(encoding="utf-8"))
    return page.substitute(title=escape(title), about=escape(about.strip()))


def foot(context: OutputContext) -> str:
    """Everything after the last query."""
    return "</html>\n"


def section(answer: Answer, context: OutputContext) -> str:
    """A query and its answers, best first."""
    _, query, answered = _WORDS[context.task]
    result = answer.result
    parts = [
        '<section><div class="query">',
        f"<h2>{escape(one_line(answer.identifier))}</h2>",
        f'<span class="label">{query}</span>',
        *drawn(answer.query.smiles),
    ]
    if answer.query.note:
        parts.append(f'<p class="note">{escape(answer.query.note)}</p>')
    parts.append("</div>")
    if result.predictions:
        parts.append('<ol class="answers">')
        for rank, prediction in enumerate(result.predictions, start=1):
            parts += _item(rank, prediction, answered, context, result.doubt(prediction))
        parts.append("</ol>")
    else:
        parts.append(f'<p class="error">{escape(answer.error or "no answer")}</p>')
    return "\n".join([*parts, "</section>\n"])


def _item(
    rank: int, prediction: Prediction, answered: str, context: OutputContext, doubt: str
) -> Iterator[str]:
    percent = 100 * prediction.probability
    yield f'<li><div class="share"><span class="label">{answered} {rank}</span>'
    yield f"<b>{percent:.1f} %</b></div>"
    yield f'<div class="bar"><i style="width:{percent:.1f}%"></i></div>'
    if prediction.canonical is None:
        yield f'<p class="error">{fault(prediction)}</p><code>{escape(prediction.smiles)}</code>'
    else:
        yield from drawn(context.shown(prediction) or "")
    if doubt:
        yield f'<p class="note">{escape(doubt)}</p>'
    yield "</li>"


def drawn(smiles: str) -> Iterator[str]:
    """A drawing, if there is a molecule, above the text."""
    from molspec.text.drawing import drawing

    if (found := drawing(smiles)) is not None:
        yield found
    yield f"<code>{escape(one_line(smiles))}</code>"
