"""The command line. Statuses: 0, 1 a query failed, 2 wrong use, 130 Ctrl-C, 141 closed pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from molspec.commands import distributing, heads, loading, planning, predicting, serving, training
from molspec.commands.flags import (
    ModelFlags,
    Processes,
    QueryColumn,
    Table,
    TargetColumn,
    with_flags,
)
from molspec.console.usage import (
    UsageError,
    check_standard_output,
    occupy_standard_streams,
    one_line_errors,
    print_err,
    print_out,
    value_errors_are_usage_errors,
)
from molspec.options import PredictOptions

if TYPE_CHECKING:
    from molspec.evaluation import Evaluation, Record, Summary

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Run SMILES-to-SMILES transformers: fast, and exact to the bit.",
)

app.command("predict")(predicting.predict_command)
app.command("score")(predicting.score_command)
app.command("predict-parquet")(distributing.predict_parquet_command)
app.command("serve")(serving.serve_command)
app.command("plan")(planning.plan_command)
app.command("prepare")(training.prepare_command)
app.command("train")(training.train_command)
app.command("cooldown")(training.cooldown_command)
app.command("average")(training.average_command)
app.command("ngram")(training.ngram_command)
app.command("distil")(heads.distil_command)
app.command("train-heads")(heads.train_heads_command)
app.command("train-drafter")(heads.train_drafter_command)


def main() -> NoReturn:
    """Run the command line and end the process with its status."""
    occupy_standard_streams()
    try:
        with one_line_errors():
            status = app(prog_name="molspec", standalone_mode=False)
    except typer.Exit as error:
        status = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        status = 130
    except Exception as error:
        # A wrong option. Typer's class for it has changed its home, this method has not.
        if not hasattr(error, "format_message"):
            raise
        print_err(error.format_message())
        status = 2
    sys.exit(status)


def _show_version(wanted: bool) -> None:
    if wanted:
        from molspec import __version__

        print_out(f"molspec {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None: ...


@app.command()
@with_flags
def evaluate(
    table_path: Table,
    query_column: QueryColumn = None,
    target_column: TargetColumn = None,
    by: Annotated[
        str | None, typer.Option(help="Name of a column: accuracy for each value in it too.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Output file, one line a query; an interrupted run resumes.")
    ] = None,
    offset: Annotated[int, typer.Option(help="Rows to skip at the beginning.")] = 0,
    limit: Annotated[int | None, typer.Option(help="Rows to take at most.")] = None,
    summary_format: Annotated[
        Literal["text", "json"], typer.Option("--format", help="Form of the summary.")
    ] = "text",
    processes: Processes = "1",
    *,
    model: ModelFlags,
    options: PredictOptions,
) -> None:
    """Measure accuracy and cost on a table of queries and targets."""
    check_standard_output()  # before hours of work
    from molspec.evaluation import Evaluation, PairTable, Settings

    with value_errors_are_usage_errors():
        count = loading.process_count(processes)
        loaded = loading.load_model(model)
        options = loaded.resolved(options)
        table = PairTable(table_path, query_column, target_column, loaded.task, by)
        settings = Settings(table, model.model_name, loaded.identity, options, offset)
        evaluation = Evaluation(settings, output, limit)
        records = evaluation.run(loaded, count)
    _work_off(records, evaluation.summary, limit)
    _show_summary(evaluation, as_json=summary_format == "json")
    raise typer.Exit(1 if evaluation.summary.failed else 0)


@app.command()
@with_flags
def info(
    model_name: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A model; all bundled ones if not given.")
    ] = None,
) -> None:
    """Show what is installed, what the processor can do, and what a model is."""
    with value_errors_are_usage_errors():
        from molspec import models
        from molspec.commands import description

        print_out(description.installation())
        for name in [model_name] if model_name is not None else models.bundled_names():
            print_out("\n" + description.model(name))


@app.command()
@with_flags
def convert(
    source: Annotated[str, typer.Argument(help="A bundled model, or a checkpoint of any format.")],
    destination: Annotated[str, typer.Argument(help="The folder to write; it must not exist.")],
    dtype: Annotated[
        str | None, typer.Option(help="float32, float16 or bfloat16; as it is if not given.")
    ] = None,
) -> None:
    """Write a checkpoint of any format that can be read in molspec's own."""
    with value_errors_are_usage_errors():
        from molspec import checkpoints, models

        checkpoints.convert(models.locate(source), destination, dtype)


@app.command()
@with_flags
def seal(
    model: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of molspec's own.")],
) -> None:
    """Write a model's hash anew, after files in its folder were changed on purpose."""
    with value_errors_are_usage_errors():
        from molspec import checkpoints

        checkpoints.seal(model)


def _work_off(records: Iterable[Record], summary: Summary, limit: int | None) -> None:
    """Let an evaluation run to its end, with progress on a terminal."""
    from tqdm import tqdm

    with tqdm(initial=summary.queries, total=limit, disable=None, unit=" queries") as bar:
        for _ in records:
            accuracy = summary.accuracy(1)
            if accuracy is not None:
                bar.set_postfix_str(f"top-1 {100 * accuracy:.1f} %", refresh=False)
            bar.update()
    if summary.queries == 0:
        raise UsageError("there are no such rows in TABLE")


def _show_summary(evaluation: Evaluation, as_json: bool) -> None:
    from molspec.evaluation import report

    settings, summary = evaluation.settings.to_json(), evaluation.summary
    groups = evaluation.groups
    if as_json:
        values = {"settings": settings, **summary.to_json()}
        if groups:
            values["groups"] = {group: part.to_json() for group, part in groups.items()}
        print_out(json.dumps(values, indent=1))
    else:
        print_out(report(settings, summary, groups))
    if summary.excluded:
        print_err(
            f"{summary.excluded} of {summary.queries} targets are no molecules to RDKit: "
            "not counted for accuracy"
        )
