"""The command line. Statuses: 0, 1 a query failed, 2 wrong use, 130 Ctrl-C, 141 closed pipe."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn, TextIO

import typer

from molspec.flags import CanonicalQueries, DecodingFlags, ModelFlags, with_flags
from molspec.formats import FORMATS, Format
from molspec.tables import open_lines
from molspec.training.commands import register
from molspec.usage import (
    UsageError,
    check_standard_output,
    naming,
    occupy_standard_streams,
    one_line_errors,
    say,
    tell,
    value_errors_are_usage_errors,
)

if TYPE_CHECKING:
    from molspec.evaluation import Evaluation, Record, Summary
    from molspec.predictor import Model
    from molspec.results import Result

# What needs torch is imported where it is used: `molspec --help` is to answer at once.

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Run SMILES-to-SMILES transformers: fast, and exact to the bit.",
)

register(app)

#: Standard input or output where a file is asked for.
_STANDARD = "-"
#: Results before the progress bar.
_FEW = 5


class OutputFormat(str, Enum):
    """Forms of the results."""

    jsonl = "jsonl"
    tsv = "tsv"
    text = "text"


class SummaryFormat(str, Enum):
    """Forms of a summary."""

    text = "text"
    json = "json"


_Output = Annotated[
    str, typer.Option("--output", help="File for the results; - is standard output.")
]
_Form = Annotated[OutputFormat, typer.Option("--format", help="Form of the results.")]
_Table = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE", help="Queries and targets: .tsv or .csv, a header; .gz or .xz too."
    ),
]
_QueryColumn = Annotated[
    str | None, typer.Option(help="Name of a column; the task's, src or query if not given.")
]
_TargetColumn = Annotated[
    str | None, typer.Option(help="Name of a column; the task's, tgt or target if not given.")
]


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
        say(error.format_message())
        status = 2
    sys.exit(status)


def _show_version(wanted: bool) -> None:
    if wanted:
        from molspec import __version__

        tell(f"molspec {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None: ...


@app.command()
@with_flags
def predict(
    smiles: Annotated[list[str] | None, typer.Argument(help="Queries.", metavar="SMILES")] = None,
    input_name: Annotated[
        str | None,
        typer.Option("--input", help="File with a query a line, .gz or .xz too; - is stdin."),
    ] = None,
    output_name: _Output = _STANDARD,
    output_format: _Form = OutputFormat.jsonl,
    *,
    model: ModelFlags,
    decoding: DecodingFlags,
) -> None:
    """Predict for every query, in the order given."""
    with one_line_errors():
        with value_errors_are_usage_errors():
            options = decoding.options()
        _check_sources(smiles, input_name, output_name)
        with _queries(smiles, input_name) as queries:
            with value_errors_are_usage_errors():
                results = _load(model).predict_stream(queries, options)
            failed = _write(results, "--input", output_name, FORMATS[output_format.value])
    raise typer.Exit(1 if failed else 0)


@app.command()
@with_flags
def evaluate(
    table_path: _Table,
    query_column: _QueryColumn = None,
    target_column: _TargetColumn = None,
    by: Annotated[
        str | None, typer.Option(help="Name of a column: accuracy for each value in it too.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="File for a line a query; where it was begun, it is gone on with."),
    ] = None,
    offset: Annotated[int, typer.Option(help="Rows to leave out at the beginning.")] = 0,
    limit: Annotated[int | None, typer.Option(help="Rows to take at most.")] = None,
    summary_format: Annotated[
        SummaryFormat, typer.Option("--format", help="Form of the summary.")
    ] = SummaryFormat.text,
    *,
    model: ModelFlags,
    decoding: DecodingFlags,
) -> None:
    """Measure accuracy and cost on a table of queries and targets."""
    with one_line_errors():
        check_standard_output()  # before hours of work
        from molspec import checkpoints, models
        from molspec.evaluation import Evaluation, PairTable, Settings

        with value_errors_are_usage_errors():
            options = decoding.options()
            checkpoint = checkpoints.read(models.locate(model.model_name))
            if options.canonical_queries is None:
                options = replace(options, canonical_queries=checkpoint.canonical_queries)
            table = PairTable(table_path, query_column, target_column, checkpoint.task, by)
            settings = Settings(
                *(table, model.model_name, checkpoint.fingerprint(), model.dtype),
                *(options, offset, model.device),
            )
            evaluation = Evaluation(settings, output, limit)
            records = evaluation.run(_load(model))
        _work_off(records, evaluation.summary, limit)
        _show_summary(evaluation, summary_format)
    raise typer.Exit(1 if evaluation.summary.failed else 0)


@app.command()
@with_flags
def score(
    table_path: _Table,
    query_column: _QueryColumn = None,
    target_column: _TargetColumn = None,
    output_name: _Output = _STANDARD,
    output_format: _Form = OutputFormat.jsonl,
    batch_size: Annotated[int, typer.Option(help="Pairs under way together.")] = 32,
    canonical_queries: CanonicalQueries = None,
    *,
    model: ModelFlags,
) -> None:
    """Say how probable a model finds the targets of a table, spelt as they are."""
    with one_line_errors():
        from molspec.evaluation import PairTable

        with value_errors_are_usage_errors():
            loaded = _load(model)
            table = PairTable(table_path, query_column, target_column, loaded.task)
            results = loaded.log_probs_stream(
                ((row.query, row.target) for row in table),
                batch_size=batch_size,
                canonical_queries=canonical_queries,
            )
        failed = _write(results, "TABLE", output_name, FORMATS[output_format.value])
    raise typer.Exit(1 if failed else 0)


@app.command()
def info(
    model_name: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A model; all bundled ones if not given.")
    ] = None,
) -> None:
    """Show what is installed, what the processor can do, and what a model is."""
    with one_line_errors(), value_errors_are_usage_errors():
        from molspec import description, models

        tell(description.installation())
        for name in [model_name] if model_name is not None else models.bundled_names():
            tell("\n" + description.model(name))


@app.command()
def convert(
    source: Annotated[str, typer.Argument(help="A bundled model, or a checkpoint of any format.")],
    destination: Annotated[str, typer.Argument(help="The folder to write; it must not exist.")],
    dtype: Annotated[
        str | None, typer.Option(help="float32, float16 or bfloat16; as it is if not given.")
    ] = None,
) -> None:
    """Write a checkpoint of any format that can be read in molspec's own."""
    with one_line_errors(), value_errors_are_usage_errors():
        from molspec import checkpoints, models

        checkpoints.convert(models.locate(source), destination, dtype)


@app.command()
def seal(
    model: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of molspec's own.")],
) -> None:
    """Write a model's hash anew, after files in its folder were changed on purpose."""
    with one_line_errors(), value_errors_are_usage_errors():
        from molspec import checkpoints

        checkpoints.seal(model)


def _load(flags: ModelFlags) -> Model:
    with _no_garbage():
        from molspec.ops import instruction_set, set_num_threads
        from molspec.predictor import load

        instruction_set()  # that the environment may name, and wrongly
        set_num_threads(flags.threads)
        return load(flags.model_name, flags.device, flags.dtype)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """What is imported stays: looking for garbage in it takes a fifth of the time to an answer."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


def _check_sources(smiles: list[str] | None, input_name: str | None, output_name: str) -> None:
    if bool(smiles) == (input_name is not None):
        raise UsageError("give queries either as SMILES or by --input, FILE or -")
    if input_name is None or _STANDARD in (input_name, output_name):
        return
    if Path(output_name).exists() and Path(output_name).samefile(input_name):
        raise UsageError(f"{output_name}: --output is the file of --input")


@contextmanager
def _queries(smiles: list[str] | None, input_name: str | None) -> Iterator[Iterable[str]]:
    """Give the arguments, or the lines of a file: open from now on, read as they are needed."""
    if input_name is None:
        yield smiles or []
        return
    if input_name == _STANDARD:
        if sys.stdin is None:
            raise UsageError("--input is -: standard input is closed")
        stdin = sys.stdin.fileno()
        with open(stdin, encoding="utf-8-sig", errors="replace", closefd=False) as stream:
            yield (line.strip() for line in stream)
        return
    with open_lines(Path(input_name)) as lines:
        yield (line.strip() for line in lines)


def _write(results: Iterator[Result], source: str, name: str, form: Format) -> bool:
    """Write results as they come, each in one piece; gives whether any query failed."""
    standard = name == _STANDARD
    if standard:
        check_standard_output()
    target = sys.stdout.fileno() if standard else name
    count, failed = 0, False
    replaced = not standard and Path(name).is_file()
    mode: Literal["a", "w"] = "a" if replaced else "w"
    with (
        naming("standard output" if standard else name),
        open(
            target, mode, encoding="utf-8", errors="backslashreplace", closefd=not standard
        ) as stream,
    ):
        if replaced:  # what is there stays until something takes its place
            first = list(islice(results, 1))
            if not first:
                raise UsageError(f"there are no queries in {source}")
            stream.truncate(0)
            results = chain(first, results)
        stream.write(form.header)
        for result in _with_progress(results, stream):
            stream.write(form.render(result))
            stream.flush()
            count += 1
            failed |= result.error is not None
    if count == 0:
        raise UsageError(f"there are no queries in {source}")
    return failed


def _with_progress(results: Iterator[Result], output: TextIO) -> Iterable[Result]:
    """Count results on a terminal that does not show the results themselves."""
    if output.isatty() or not sys.stderr.isatty():
        return results
    return _counted(results)


def _counted(results: Iterator[Result]) -> Iterator[Result]:
    from tqdm import tqdm

    yield from islice(results, _FEW)
    yield from tqdm(results, initial=_FEW, delay=0.1, unit=" queries")


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


def _show_summary(evaluation: Evaluation, form: SummaryFormat) -> None:
    from molspec.evaluation import report

    settings, summary = evaluation.settings.to_json(), evaluation.summary
    groups = evaluation.groups
    if form is SummaryFormat.json:
        values = {"settings": settings, **summary.to_json()}
        if groups:
            values["groups"] = {group: part.to_json() for group, part in groups.items()}
        tell(json.dumps(values, indent=1))
    else:
        tell(report(settings, summary, groups))
    if summary.excluded:
        say(
            f"{summary.excluded} of {summary.queries} targets are no molecules to RDKit: "
            "not counted for accuracy"
        )
