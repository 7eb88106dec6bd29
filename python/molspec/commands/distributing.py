"""The command `predict-parquet`, for the command line to register."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from molspec.commands import loading
from molspec.commands.flags import ModelFlags, with_flags
from molspec.console.usage import (
    UsageError,
    one_line_errors,
    print_err,
    value_errors_are_usage_errors,
)
from molspec.options import PredictOptions

# What needs torch is imported where it is used: `molspec --help` is to answer at once.


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("predict-parquet")(predict_parquet_command)


@with_flags
def predict_parquet_command(
    source: Annotated[Path, typer.Argument(help="Parquet: a file, or a folder of files.")],
    output: Annotated[Path, typer.Argument(help="Folder for the rows with their predictions.")],
    column: Annotated[
        str | None, typer.Option(help="Column of SMILES; smiles, query, src or the task's.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes; on cuda each has a GPU.")] = 1,
    block_rows: Annotated[int, typer.Option(min=1, help="Rows a worker takes at a time.")] = 1024,
    *,
    model: ModelFlags,
    options: PredictOptions,
) -> None:
    """Predict for every row of Parquet files on all machines of a Ray cluster.

    The cluster is the one that RAY_ADDRESS names, or this machine; all of it must see the paths.
    """
    with one_line_errors(), value_errors_are_usage_errors():
        unfinished = output.with_name(output.name + ".unfinished")
        if output.exists():
            raise UsageError(f"{output} is there already: take another folder")
        if not source.exists():
            raise UsageError(f"{source} is not there: expected Parquet, a file or a folder")
        distributed = _ray(workers * model.threads)
        # What is wrong is said here, not by every worker; only those need have a GPU.
        loaded = loading.load_model(replace(model, device="cpu", dtype="float32"))
        table = distributed.read(source)
        distributed.check(table.schema().names, column, loaded.task)
        loaded.resolved(options)
        distributed.predict(
            table,
            model.model_name,
            workers=workers,
            block_rows=block_rows,
            device=model.device,
            dtype=model.dtype,
            threads=model.threads,
            column=column,
            options=options,
        ).write_parquet(str(unfinished), mode="overwrite")
        unfinished.rename(output)
        count, failed = distributed.count(output)
        print_err(f"{output} has {count} rows, {failed} of them with an error")
    raise typer.Exit(1 if failed else 0)


def _ray(processors: int) -> Any:
    """What answers tables, by the cluster that is named or one of this machine's.

    Its own has a processor more than workers take, for what reads and writes: they would wait for
    each other.
    """
    try:
        import ray

        from molspec import ray as distributed
    except ImportError as error:
        raise UsageError(
            f"predict-parquet needs Ray, {error}: pip install 'molspec[ray]'"
        ) from error
    if not ray.is_initialized():
        named = "RAY_ADDRESS" in os.environ
        ray.init(**{} if named else {"address": "local", "num_cpus": processors + 1})
    return distributed
