"""The commands `predict` and `score`, for the command line to register."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from molspec import __version__, files
from molspec.commands import loading
from molspec.commands.flags import (
    STANDARD,
    CanonicalQueries,
    DecodingFlags,
    Form,
    InputFlags,
    ModelFlags,
    OutputFlags,
    OutputForm,
    Processes,
    QueryColumn,
    Table,
    TargetColumn,
    with_flags,
)
from molspec.console.progress import counted, is_shown
from molspec.console.usage import (
    UsageError,
    check_standard_output,
    one_line_errors,
    print_err,
    value_errors_are_usage_errors,
)
from molspec.files import FORMATS, Answer, OutputContext, Query, ResultFile, ResultStream

if TYPE_CHECKING:
    from molspec.options import PredictOptions
    from molspec.predictor import Model

# What needs torch is imported where it is used: `molspec --help` is to answer at once.


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("predict")(predict_command)
    app.command("score")(score_command)


@with_flags
def predict_command(
    smiles: Annotated[list[str] | None, typer.Argument(help="Queries.", metavar="SMILES")] = None,
    *,
    source: InputFlags,
    output: OutputFlags,
    model: ModelFlags,
    decoding: DecodingFlags,
    processes: Processes = "1",
) -> None:
    """Predict for every query, in the order given; the same command goes on after a kill."""
    with one_line_errors():
        with value_errors_are_usage_errors():
            options = decoding.options()
            count = loading.process_count(processes)
            _check(smiles, source, output)
        with files.open_source(source.input_name, source.form, smiles or ()) as opened:
            with value_errors_are_usage_errors():
                loaded = loading.load_model(model)
                queries = opened.queries(source.column, source.id_column, loaded.task)
                target = _target(output, loaded, model, options, source.strip_salts)
                done = target.progress.done
                rest = target.rest(_readable(queries))
                ahead = list(islice(rest, 1))
                if not ahead and not done:
                    raise UsageError(f"there are no queries in {opened.name}")
                answers = files.ask(
                    *(loaded, chain(ahead, rest), options),
                    done=done,
                    strip_salts=source.strip_salts,
                    processes=count,
                )
            _work_off(target.write(answers), output.output_name, opened.count, done)
            if not ahead:
                print_err(f"{output.output_name} has the answers to all {done} queries")
    raise typer.Exit(1 if target.progress.failed else 0)


@with_flags
def score_command(
    table_path: Table,
    query_column: QueryColumn = None,
    target_column: TargetColumn = None,
    output_name: Annotated[
        str, typer.Option("--output", "-o", help="File for the results; - is stdout.")
    ] = STANDARD,
    output_form: Form = None,
    batch_size: Annotated[int, typer.Option(help="Pairs under way together.")] = 32,
    canonical_queries: CanonicalQueries = None,
    aligned: Annotated[
        bool, typer.Option("--aligned", help="Score each target in its likeliest spelling.")
    ] = False,
    processes: Processes = "1",
    *,
    model: ModelFlags,
) -> None:
    """Say how probable a model finds the targets of a table, spelt as they are or --aligned."""
    with one_line_errors():
        from molspec.evaluation import PairTable

        with value_errors_are_usage_errors():
            form = _form(output_name, output_form)
            count = loading.process_count(processes)
            if output_name == STANDARD:
                check_standard_output()
            loaded = loading.load_model(model)
            table = PairTable(table_path, query_column, target_column, loaded.task)
            results = loaded.log_probs_stream(
                ((row.query, row.target) for row in table),
                batch_size=batch_size,
                canonical_queries=canonical_queries,
                aligned=aligned,
                processes=count,
            )
        answers = (
            Answer(number, Query(result.query), result)
            for number, result in enumerate(results, start=1)
        )
        context = OutputContext(model.model_name, loaded.task, as_written=True)
        first = list(islice(answers, 1))
        if not first:
            raise UsageError("there are no queries in TABLE")
        target = ResultStream(output_name, FORMATS[form], context)
        _work_off(target.write(chain(first, answers)), output_name)
    raise typer.Exit(1 if target.progress.failed else 0)


def _check(smiles: list[str] | None, source: InputFlags, output: OutputFlags) -> None:
    """Raise UsageError or ValueError where queries or results have no place."""
    given = source.input_name
    if bool(smiles) == (given is not None):
        raise UsageError("give queries either as SMILES or by --input, FILE or -")
    for text in smiles or ():
        if files.is_named_as_source(text) and Path(text).is_file():
            raise UsageError(f"{text} is a file: give it by --input")
    _form(output.output_name, output.output_form)
    if output.output_name == STANDARD:
        check_standard_output()
    if given is None or STANDARD in (given, output.output_name):
        return
    if Path(output.output_name).exists() and Path(output.output_name).samefile(given):
        raise UsageError(f"{output.output_name}: --output is the file of --input")


def _form(output_name: str, form: OutputForm | None) -> str:
    """Name of the form to write. Raises ValueError where the file's name asks for none."""
    if form is not None:
        return form.value
    return "text" if files.is_stream(output_name) else files.format_of(output_name)


def _target(
    output: OutputFlags, loaded: Model, model: ModelFlags, options: PredictOptions, stripped: bool
) -> ResultFile[Answer] | ResultStream[Answer]:
    """Where results go. Raises ValueError where what is there is of another job."""
    form = _form(output.output_name, output.output_form)
    if form == "rsmi" and loaded.task is None:
        raise UsageError("format is 'rsmi': the model does not say which side it answers")
    FORMATS[form].check()
    about = (
        f"Answered by {model.model_name}, {model.dtype}, {_how(options)}; molspec {__version__}."
    )
    context = OutputContext(
        *(model.model_name, loaded.task, output.as_written, about), _further_columns(options)
    )
    if files.is_stream(output.output_name):
        return ResultStream(output.output_name, FORMATS[form], context)
    settings = {
        **_settings(loaded, model, options),
        "format": form,
        "as_written": output.as_written,
        "strip_salts": stripped,
        "part_size": output.part_size,
    }
    path = Path(output.output_name)
    return ResultFile(path, FORMATS[form], context, settings, output.part_size, output.overwrite)


def _how(options: PredictOptions) -> str:
    if options.samples is not None:
        return f"by {options.samples} samples"
    if options.verification == "relaxed":
        return "greedily, with tokens tolerated that the model would not write"
    return "greedily" if options.is_greedy else f"by a beam of {options.width}"


def _further_columns(options: PredictOptions) -> tuple[str, ...]:
    """What a table has beside its usual columns, of samples and of relaxed answers."""
    has = {
        "count": options.samples is not None and options.merge_duplicates,
        "inclusion": not options.replacement,
        "tolerated": options.verification == "relaxed",
    }
    return tuple(name for name, there in has.items() if there)


def _settings(loaded: Model, model: ModelFlags, options: PredictOptions) -> dict[str, Any]:
    from molspec import checkpoints, models
    from molspec.provenance import run_settings

    if options.canonical_queries is None:
        options = replace(options, canonical_queries=loaded.canonical_queries)
    weights = checkpoints.read(models.locate(model.model_name)).fingerprint()
    return run_settings(model.model_name, weights, model.device, model.dtype, options)


def _readable(queries: Iterator[Query]) -> Iterator[Query]:
    """Let a row that cannot be read, such as one that is no csv, end the command in a line."""
    with value_errors_are_usage_errors():
        yield from queries


def _work_off(
    answers: Iterator[Answer],
    output_name: str,
    count: Callable[[], int | None] = lambda: None,
    done: int = 0,
) -> None:
    """Let the answers be written, with progress on a terminal that does not show them."""
    if is_shown(output_name == STANDARD and sys.stdout.isatty()):
        answers = counted(answers, "queries", count(), done)
    for _ in answers:
        pass
