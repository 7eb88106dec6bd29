"""The command line. Statuses: 0, 1 a query failed, 2 wrong use, 130 Ctrl-C, 141 closed pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TextIO

import typer

from molspec.formats import FORMATS, Format

if TYPE_CHECKING:
    from molspec.predictor import Model, Result

# What needs torch is imported where it is used: `molspec --help` is to answer at once.

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Run SMILES-to-SMILES transformers: fast, and exact to the bit.",
)

#: Standard input or output where a file is asked for.
_STANDARD = "-"
#: Results before the progress bar.
_FEW = 5


class OutputFormat(str, Enum):
    """Forms of the results."""

    jsonl = "jsonl"
    tsv = "tsv"
    text = "text"


class _UsageError(Exception):
    """The command cannot be carried out as given."""


def main() -> NoReturn:
    """Run the command line and end the process with its status."""
    try:
        status = app(prog_name="molspec", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        status = 130
    except Exception as error:
        # A wrong option. Typer's class for it has changed its home, this method has not.
        if not hasattr(error, "format_message"):
            raise
        _say(error.format_message())
        status = 2
    sys.exit(status)


def _show_version(wanted: bool) -> None:
    if wanted:
        from molspec import __version__

        typer.echo(f"molspec {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None: ...


@app.command()
def predict(
    smiles: Annotated[list[str] | None, typer.Argument(help="Queries.", metavar="SMILES")] = None,
    input_name: Annotated[
        str | None, typer.Option("--input", help="File with a query a line; - is standard input.")
    ] = None,
    output_name: Annotated[
        str, typer.Option("--output", help="File for the results; - is standard output.")
    ] = _STANDARD,
    model_name: Annotated[
        str, typer.Option("--model", help="product, retro, or the path of a checkpoint.")
    ] = "product",
    n_best: Annotated[int, typer.Option(help="Answers a query.")] = 1,
    beam_size: Annotated[
        int | None, typer.Option(help="Hypotheses kept; n-best if not given.")
    ] = None,
    beam: Annotated[
        str | None, typer.Option(help="exact, standard or sbs; greedy where one answer is asked.")
    ] = None,
    length_penalty: Annotated[float, typer.Option(help="Rank by log_prob / length ** this.")] = 0.0,
    merge_duplicates: Annotated[
        bool, typer.Option("--merge-duplicates", help="Answers that are one molecule become one.")
    ] = False,
    drafter: Annotated[
        str | None, typer.Option(help="tree, windows or none; the search's own if not given.")
    ] = None,
    draft_length: Annotated[int | None, typer.Option(help="Tokens of a window.")] = None,
    draft_count: Annotated[int | None, typer.Option(help="Windows a query.")] = None,
    node_budget: Annotated[int | None, typer.Option(help="Nodes of a tree.")] = None,
    dtype: Annotated[
        str, typer.Option(help="float32, or bfloat16: faster, and rounded.")
    ] = "float32",
    batch_size: Annotated[int, typer.Option(help="Queries under way together.")] = 32,
    max_length: Annotated[
        int | None, typer.Option(help="Tokens of an answer at most; 200 or the model's limit.")
    ] = None,
    output_format: Annotated[
        OutputFormat, typer.Option("--format", help="Form of the results.")
    ] = OutputFormat.jsonl,
) -> None:
    """Predict for every query, in the order given."""
    with _one_line_errors():
        from molspec.strategy import PredictOptions

        with _value_errors_are_usage_errors():
            options = PredictOptions(
                n_best=n_best,
                beam_size=beam_size,
                beam=beam,  # type: ignore[arg-type]  # PredictOptions says what it may be
                length_penalty=length_penalty,
                merge_duplicates=merge_duplicates,
                drafter=drafter,
                draft_length=draft_length,
                draft_count=draft_count,
                node_budget=node_budget,
                batch_size=batch_size,
                max_length=max_length,
            )
        _check_sources(smiles, input_name, output_name)
        with _queries(smiles, input_name) as queries:
            with _value_errors_are_usage_errors():
                results = _load(model_name, dtype).predict_stream(queries, options)
            failed = _write(results, output_name, FORMATS[output_format.value])
    raise typer.Exit(1 if failed else 0)


@app.command()
def info(
    model_name: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A model; all bundled ones if not given.")
    ] = None,
) -> None:
    """Show what is installed, what the processor can do, and what a model is."""
    with _one_line_errors(), _value_errors_are_usage_errors():
        from molspec import description, models

        typer.echo(description.installation())
        for name in [model_name] if model_name is not None else models.bundled_names():
            typer.echo("\n" + description.model(name))


@app.command()
def convert(
    source: Annotated[str, typer.Argument(help="A checkpoint: Lightning file or folder.")],
    destination: Annotated[str, typer.Argument(help="The folder to write; it must not exist.")],
    dtype: Annotated[
        str | None, typer.Option(help="float32, float16 or bfloat16; as it is if not given.")
    ] = None,
) -> None:
    """Write a checkpoint of any format that can be read in molspec's own."""
    with _one_line_errors(), _value_errors_are_usage_errors():
        from molspec import checkpoints, models

        checkpoints.convert(models.locate(source), destination, dtype)


def _load(name: str, dtype: str) -> Model:
    from molspec.predictor import load

    return load(name, dtype=dtype)


def _check_sources(smiles: list[str] | None, input_name: str | None, output_name: str) -> None:
    if bool(smiles) == (input_name is not None):
        raise _UsageError("give queries either as SMILES or by --input, FILE or -")
    if input_name is None or _STANDARD in (input_name, output_name):
        return
    if Path(output_name).exists() and Path(output_name).samefile(input_name):
        raise _UsageError(f"{output_name}: --output is the file of --input")


@contextmanager
def _queries(smiles: list[str] | None, input_name: str | None) -> Iterator[Iterable[str]]:
    """Give the arguments, or the lines of a file: open from now on, read as they are needed."""
    if input_name is None:
        yield smiles or []
        return
    standard = input_name == _STANDARD
    source = sys.stdin.fileno() if standard else input_name
    with open(source, encoding="utf-8-sig", errors="replace", closefd=not standard) as stream:
        yield (line.strip() for line in stream)


def _write(results: Iterator[Result], name: str, form: Format) -> bool:
    """Write results as they come, each in one piece; gives whether any query failed."""
    standard = name == _STANDARD
    target = sys.stdout.fileno() if standard else name
    count, failed = 0, False
    with open(
        target, "w", encoding="utf-8", errors="backslashreplace", closefd=not standard
    ) as stream:
        stream.write(form.header)
        for result in _with_progress(results, stream):
            stream.write(form.render(result))
            stream.flush()
            count += 1
            failed |= result.error is not None
    if count == 0:
        raise _UsageError("there are no queries in --input")
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


@contextmanager
def _value_errors_are_usage_errors() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise _UsageError(error) from error


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise typer.Exit(141) from None
    except _UsageError as error:
        _say(str(error))
        raise typer.Exit(2) from error
    except OSError as error:
        _say(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror))
        raise typer.Exit(2) from error


def _say(message: str) -> None:
    typer.echo(f"molspec: {' '.join(message.split())}", err=True)
