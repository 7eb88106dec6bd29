"""The commands `info`, `convert` and `seal`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from molspec.commands.flags import with_flags
from molspec.common.console import print_out, value_errors_are_usage_errors
from molspec.common.task import Task


@with_flags
def info_command(
    model_name: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A model; by default all bundled ones.")
    ] = None,
) -> None:
    """Show versions, the processor's kernels and models."""
    with value_errors_are_usage_errors():
        from molspec.checkpoints import bundled
        from molspec.commands import description

        print_out(description.installation())
        for name in [model_name] if model_name is not None else bundled.bundled_names():
            print_out("\n" + description.model(name))


@with_flags
def convert_command(
    source: Annotated[str, typer.Argument(help="A bundled model, or a checkpoint of any format.")],
    destination: Annotated[str, typer.Argument(help="The folder to write; it must not exist.")],
    dtype: Annotated[
        str | None,
        typer.Option(help="float32, float16 or bfloat16; by default the checkpoint's own."),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(help="The vocabulary of a Chemformer, if several are beside it."),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            help="The text that the model reads, with {} for the query: 'Product:{}>>'; by default "
            "the checkpoint's own."
        ),
    ] = None,
    task: Annotated[
        Task | None,
        typer.Option(
            help="Whether the model predicts reactants or products; by default what the checkpoint "
            "says, which most formats do not."
        ),
    ] = None,
) -> None:
    """Convert a checkpoint to molspec's own format."""
    with value_errors_are_usage_errors():
        from molspec import checkpoints
        from molspec.checkpoints import bundled

        checkpoints.convert(bundled.locate(source), destination, dtype, vocabulary, template, task)


@with_flags
def seal_command(
    model: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A checkpoint folder in molspec's format.")
    ],
) -> None:
    """Write a model's hash again, after you changed its files."""
    with value_errors_are_usage_errors():
        from molspec import checkpoints

        checkpoints.seal(model)
