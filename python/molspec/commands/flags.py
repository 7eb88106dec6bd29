"""Options that several commands share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from molspec.common.console import (
    STANDARD,
    UsageError,
    one_line_errors,
    value_errors_are_usage_errors,
)
from molspec.common.fields import setting

Table = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE", help="Queries and targets: .tsv or .csv, a header; .gz or .xz too."
    ),
]
ProcessesFlag = Annotated[
    str,
    typer.Option(
        "--processes",
        metavar="N",
        help="Processes on the CPU that share the model; all: one for each core.",
    ),
]
QueryColumn = Annotated[
    str | None, typer.Option(help="Query column; by default the task's, src or query.")
]
TargetColumn = Annotated[
    str | None, typer.Option(help="Target column; by default the task's, tgt or target.")
]


@dataclass(frozen=True)
class ModelFlags:
    """The model, its device and its precision."""

    model_name: str = setting(
        "product",
        "product, retro, or the path of a checkpoint; several, or A+B, are averaged.",
        flags=("--model", "-m"),
        joint="+",
    )
    device: str = setting("cpu", "cpu; cuda, or cuda:1 for the second; auto: cuda if it works.")
    dtype: str = setting("float32", "float32; faster but rougher: bfloat16, int8 (CPU).")
    threads: Annotated[
        int, typer.Option(min=1, help="Threads on the CPU; answers do not change.")
    ] = 1


#: Names of standard output.
_STANDARD_OUTPUTS = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
InputForm = Literal["smi", "csv", "tsv", "sdf", "rxn"]
OutputForm = Literal["text", "jsonl", "csv", "tsv", "smi", "rsmi", "sdf", "html"]

Raw = Annotated[
    bool,
    typer.Option("--raw", help="List the beam as it is, with duplicates and invalid answers."),
]
CopyColumn = Annotated[
    list[str] | None,
    typer.Option(help="Copy this column of the input to the output; may be repeated."),
]


@dataclass(frozen=True)
class InputFlags:
    """The source of queries."""

    input_names: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            help="Queries: .smi, .csv, .tsv, .sdf, .rxn; .gz or .xz too; - is stdin. May be "
            "repeated.",
        ),
    ] = None
    input_form: Annotated[
        InputForm | None,
        typer.Option("--input-format", help="Input format; by default from the input's name."),
    ] = None
    column: str | None = setting(
        None, "Column of SMILES; by default smiles, query, src or the task's."
    )
    id_column: str | None = setting(
        None, "Column, or SDF field, of identifiers; by default id or name."
    )
    keep_salts: bool = setting(
        False, "Decode salts and mixtures whole; retro removes counter-ions."
    )


@dataclass(frozen=True)
class StockFlags:
    """The columns of a stock that is a table."""

    stock_column: str | None = setting(
        None, "The stock's column of SMILES or InChIKeys; found if not given."
    )
    stock_id_column: str | None = setting(
        None, "The stock's column, or SDF field, of names; by default id or name."
    )
    stock_price_column: str | None = setting(
        None, "The stock's column of prices; by default price, ppg, price_per_gram or cost."
    )


@dataclass(frozen=True)
class OutputFlags:
    """The output and its format."""

    output_name: str = setting(
        STANDARD,
        "Output file; an interrupted run resumes. - writes to stdout.",
        flags=("--output", "-o"),
    )
    output_form: Annotated[
        OutputForm | None,
        typer.Option(
            "--format", "-f", help="Output format; by default from the output's name, else text."
        ),
    ] = None
    overwrite: bool = setting(False, "Start again and replace an output that exists.")

    def __post_init__(self) -> None:
        if self.output_name in _STANDARD_OUTPUTS:  # which may be a file, that would be replaced
            object.__setattr__(self, "output_name", STANDARD)


@dataclass(frozen=True)
class PredictionFlags(OutputFlags):
    """The output of predictions, and the spelling of answers."""

    as_written: bool = setting(False, "Write answers in the model's own spelling.")


class Command(TyperCommand):
    """A command that refuses an option given twice, unless it may be repeated.

    Otherwise the last value would count, and the others be lost without a word.
    """

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Raises UsageError that names the option."""
        *_, order = self.make_parser(context).parse_args(args=[*args])
        for given, count in Counter(order).items():
            if count > 1 and given.param_type_name == "option" and not given.multiple:
                raise UsageError(f"{given.opts[0]} is given {count} times: expected it once")
        return super().parse_args(context, args)


@dataclass(frozen=True)
class Given:
    """Annotates a parameter that gets the given flags of a dataclass' fields, by name.

    names: of the fields that have flags; all with a plain value by default.
    """

    kind: type[Any]
    names: tuple[str, ...] = ()


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the fields of its dataclass parameters as options.

    A field is a `molspec.common.fields.setting`, which describes itself, or is annotated with a
    `typer.Option`. Such parameters are passed by name; the others do not change.

    Errors of the command's user become one line and an exit status.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: group for name, hint in hints.items() if (group := _group(hint)) is not None}

    @wraps(command)
    def run(**values: Any) -> None:
        with one_line_errors():
            for name, group in groups.items():
                own = {each.name: _joined(each, values.pop(each.name)) for each in _flagged(group)}
                if isinstance(group, Given):
                    values[name] = {key: value for key, value in own.items() if value is not None}
                else:
                    with value_errors_are_usage_errors():
                        values[name] = group(**own)
            command(**values)

    parameters = [
        parameter
        for name, own in signature(command).parameters.items()
        for parameter in (
            _options(groups[name])
            if name in groups
            else [own.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name])]
        )
    ]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _group(hint: Any) -> type[Any] | Given | None:
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    about = getattr(hint, "__metadata__", ())
    return next((each for each in about if isinstance(each, Given)), None)


def _flagged(group: type[Any] | Given) -> list[Field[Any]]:
    if not isinstance(group, Given):
        return list(fields(group))
    names = group.names or [each.name for each in fields(group.kind) if "flags" in each.metadata]
    return [each for each in fields(group.kind) if each.name in names]


def _joined(each: Field[Any], value: Any) -> Any:
    """The value of a field, from the texts of one that may be repeated."""
    joint: str = each.metadata.get("joint", "")
    return joint.join(value) if joint else value


def _options(group: type[Any] | Given) -> Iterator[Parameter]:
    kind = group.kind if isinstance(group, Given) else group
    hints = get_type_hints(kind, include_extras=True)
    for each in _flagged(group):
        default, hint = each.default, hints[each.name]
        if default is MISSING:
            default = Parameter.empty
        if isinstance(group, Given):
            default, hint = None, hint | None
        if each.metadata.get("joint"):
            default = [default]
        if "help" in each.metadata:
            hint = _described(each, hint)
        yield Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _described(each: Field[Any], hint: Any) -> Any:
    """The annotation of a field that describes itself: texts, numbers, True and False."""
    kinds = get_args(hint) or (hint,)
    kind = next((plain for plain in (bool, int, float) if plain in kinds), str)
    name = "--" + each.name.replace("_", "-")
    names = each.metadata["flags"] or (
        (name,) if kind is not bool or each.default is False else (f"{name}/--no-{name[2:]}",)
    )
    optional = kind | None if NoneType in kinds else list[str] if each.metadata["joint"] else kind
    return Annotated[optional, typer.Option(*names, help=each.metadata["help"])]
