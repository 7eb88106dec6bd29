"""Options that several commands of the command line share, each written down once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from molspec.options import PredictOptions

#: Standard input or output where a file is asked for.
STANDARD = "-"

CanonicalQueries = Annotated[
    bool | None,
    typer.Option(
        "--canonical-queries/--queries-as-given",
        help="Ask in canonical SMILES or as given; as the model was trained if not said.",
    ),
]

Table = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE", help="Queries and targets: .tsv or .csv, a header; .gz or .xz too."
    ),
]
Processes = Annotated[
    str,
    typer.Option(
        "--processes",
        metavar="N",
        help="Processes on the CPU that share the model; all: one for each core.",
    ),
]
QueryColumn = Annotated[
    str | None, typer.Option(help="Name of a column; the task's, src or query if not given.")
]
TargetColumn = Annotated[
    str | None, typer.Option(help="Name of a column; the task's, tgt or target if not given.")
]


@dataclass(frozen=True)
class ModelFlags:
    """Which model, where, and in which precision."""

    model_name: Annotated[
        str, typer.Option("--model", "-m", help="product, retro, or the path of a checkpoint.")
    ] = "product"
    device: Annotated[str, typer.Option(help="cpu, cuda, or cuda:1 for the second.")] = "cpu"
    dtype: Annotated[
        str,
        typer.Option(
            help="float32; bfloat16: faster; int8: faster still, rougher; float16 on cuda."
        ),
    ] = "float32"
    threads: Annotated[
        int, typer.Option(min=1, help="Threads on the CPU; answers do not change.")
    ] = 1


@dataclass(frozen=True)
class DecodingFlags:
    """How to decode: the fields of `PredictOptions`, whose defaults they have."""

    n_best: Annotated[int, typer.Option("--n-best", "-n", help="Answers a query.")] = 1
    beam_size: Annotated[int | None, typer.Option(help="Hypotheses kept; n-best if not given.")] = (
        None
    )
    beam: Annotated[
        str | None,
        typer.Option(help="exact, standard or sbs; greedy where one answer is asked."),
    ] = None
    drafter: Annotated[
        str | None,
        typer.Option(help="tree, windows, none, heads, spec; the search's own if not given."),
    ] = None
    draft_length: Annotated[int | None, typer.Option(help="Tokens of a window.")] = None
    draft_count: Annotated[int | None, typer.Option(help="Windows a query.")] = None
    node_budget: Annotated[int | None, typer.Option(help="Nodes of a tree.")] = None
    length_penalty: Annotated[float, typer.Option(help="Rank by log_prob / length ** this.")] = 0.0
    finished: Annotated[
        str,
        typer.Option(help="Finished hypotheses keep their place in the beam, or apart."),
    ] = "beam"
    batch_size: Annotated[int, typer.Option(help="Queries under way together.")] = 32
    max_length: Annotated[
        int | None, typer.Option(help="Tokens of an answer at most; 200 or the model's limit.")
    ] = None
    merge_duplicates: Annotated[
        bool, typer.Option("--merge-duplicates", help="Answers that are one molecule become one.")
    ] = False
    canonical_queries: CanonicalQueries = None
    views: Annotated[
        int, typer.Option(help="Spellings of a query to ask: more accurate, more work.")
    ] = 1
    drop_invalid: Annotated[
        bool, typer.Option("--drop-invalid", help="Leave out what is no molecule to RDKit.")
    ] = False
    drop_unchanged: Annotated[
        bool, typer.Option("--drop-unchanged", help="Leave out answers that are no reaction.")
    ] = False
    widen: Annotated[
        int,
        typer.Option(help="Times as wide a beam may get where dropping leaves too few answers."),
    ] = 4
    samples: Annotated[
        int | None, typer.Option(help="Draw so many answers at random in place of the best.")
    ] = None
    temperature: Annotated[
        float, typer.Option(help="Of samples: below 1 the likelier answers come more often.")
    ] = 1.0
    top_k: Annotated[int | None, typer.Option(help="Draw among so many likeliest tokens.")] = None
    top_p: Annotated[
        float | None, typer.Option(help="Draw among tokens of so much probability together.")
    ] = None
    seed: Annotated[int, typer.Option(help="Of samples: the same seed, the same samples.")] = 0
    replacement: Annotated[
        bool,
        typer.Option("--replacement/--no-replacement", help="Whether samples may be the same."),
    ] = True
    verification: Annotated[
        str,
        typer.Option(help="strict; relaxed: keep drafts nearly as likely; rejection: of samples."),
    ] = "strict"
    beta: Annotated[int, typer.Option(help="Relaxed: a draft is among so many likeliest.")] = 3
    tau: Annotated[float, typer.Option(help="Relaxed: nats below the likeliest at most.")] = 1.0
    judge: Annotated[
        str, typer.Option(help="Relaxed: whose probability counts, the model's or the drafter's.")
    ] = "model"

    def options(self) -> PredictOptions:
        """Raises ValueError, naming the option, where a value or a combination makes no sense."""
        from molspec.options import PredictOptions

        return PredictOptions(**asdict(self))


class InputForm(str, Enum):
    """Forms of a file of queries."""

    smi = "smi"
    csv = "csv"
    tsv = "tsv"
    sdf = "sdf"


class OutputForm(str, Enum):
    """Forms of the results."""

    text = "text"
    jsonl = "jsonl"
    csv = "csv"
    tsv = "tsv"
    smi = "smi"
    rsmi = "rsmi"
    sdf = "sdf"
    html = "html"


Form = Annotated[
    OutputForm | None,
    typer.Option("--format", "-f", help="As the output's name says, or text, if not given."),
]

OutputName = Annotated[
    str,
    typer.Option(
        "--output", "-o", help="Output file; an interrupted run resumes. - writes to stdout."
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Begin anew where the output is there already.")
]


@dataclass(frozen=True)
class InputFlags:
    """Where queries come from."""

    input_name: Annotated[
        str | None,
        typer.Option(
            "--input", "-i", help="Queries: .smi, .csv, .tsv or .sdf; .gz or .xz too; - is stdin."
        ),
    ] = None
    input_form: Annotated[
        InputForm | None, typer.Option("--input-format", help="As its name says if not given.")
    ] = None
    column: Annotated[
        str | None, typer.Option(help="Column of SMILES; smiles, query, src or the task's.")
    ] = None
    id_column: Annotated[
        str | None, typer.Option(help="Column, or field of an SDF, of identifiers; id or name.")
    ] = None
    strip_salts: Annotated[
        bool, typer.Option("--strip-salts", help="Ask without counter-ions and solvents.")
    ] = False

    @property
    def form(self) -> str | None:
        """Name of the form, where it was given."""
        return None if self.input_form is None else self.input_form.value


@dataclass(frozen=True)
class OutputFlags:
    """Where results go, and in what form."""

    output_name: OutputName = STANDARD
    output_form: Form = None
    overwrite: Overwrite = False
    part_size: Annotated[
        int | None, typer.Option(help="Results a file: NAME-00001, NAME-00002 and so on.")
    ] = None
    as_written: Annotated[
        bool, typer.Option("--as-written", help="Spell answers as the model does.")
    ] = False


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the fields of its dataclass parameters as options of its own.

    Such a parameter is to be given by name; the others stay as they are.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)
    }

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            own = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**own)
        command(**values)

    parameters = [
        parameter
        for name, own in signature(command).parameters.items()
        for parameter in (
            _options(groups[name]) if name in groups else [own.replace(annotation=hints[name])]
        )
    ]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _options(group: type[Any]) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
