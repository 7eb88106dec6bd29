"""A job of the command line: queries in, results out, resumed after an interruption, summarised."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from molspec import files
from molspec.commands.flags import InputFlags, ModelFlags, OutputFlags
from molspec.common import console, tables
from molspec.common.console import STANDARD, UsageError, print_err

if TYPE_CHECKING:
    from molspec.prediction.model import Model

T = TypeVar("T")
#: Seconds of a job after which several processes would have been worth it.
_LONG = 30.0
Output: TypeAlias = files.ResultFile[files.AnswerT] | files.ResultStream[files.AnswerT]


def check_queries(given: Sequence[str] | None, source: InputFlags, noun: str = "queries") -> None:
    """Raise UsageError unless queries are given in exactly one way."""
    names = source.input_names or []
    if bool(given) == bool(names):
        raise UsageError(f"give {noun} either as SMILES or by --input, FILE or -")
    if names.count(STANDARD) > 1:
        raise UsageError("--input is - twice: standard input can be read once")
    for text in given or ():
        if files.input_format(text) and Path(text).is_file():
            raise UsageError(f"{text} is a file: give it by --input")


def chosen_format(output: OutputFlags, formats: Mapping[str, files.Format[Any]]) -> str:
    """The format to write: the given one, or that of the output's ending.

    Raises ValueError if there is none or it cannot be written here, UsageError if standard output
    is closed.
    """
    name = output.output_name
    if name == STANDARD:
        console.check_standard_output()
    if (ending := Path(name).suffix.lower()) in tables.COMPRESSED:
        raise ValueError(f"output is {name!r}: expected one without {ending}, none is compressed")
    chosen = output.output_form or (
        "text" if files.is_stream(name) else files.format_of(name, formats)
    )
    formats[chosen].check()
    return chosen


def check_copied(copied: Sequence[str], form: str, has_columns: bool, taken: Sequence[str]) -> None:
    """Raise UsageError if the format has no columns, or one of a copied column's name."""
    for index, name in enumerate(copied):
        if not has_columns:
            raise UsageError(f"copy_column is {name!r}: expected none, {form} has no columns")
        if name in (*taken, *copied[:index]):
            raise UsageError(f"copy_column is {name!r}: expected a name that no other column has")


def files_read(model: ModelFlags, source: InputFlags | None = None) -> files.Reads:
    """The files that a job reads, by option."""
    from molspec.checkpoints.bundled import locate
    from molspec.checkpoints.ensemble import members

    names = (source and source.input_names) or ()
    given = [sys.stdin.fileno() if name == STANDARD else name for name in names]
    models = {f"--model {name}": locate(name) for name in members(model.model_name)}
    return {"--input": given, **models}


def open_results(
    output: OutputFlags,
    form: files.Format[files.AnswerT],
    context: files.OutputContext,
    settings: Mapping[str, Any],
    reads: files.Reads,
) -> Output[files.AnswerT]:
    """The output. Raises ValueError and OSError as `ResultFile` does."""
    name = output.output_name
    if files.is_stream(name):
        return files.ResultStream(name, form, context, reads)
    return files.ResultFile(Path(name), form, context, settings, output.overwrite, reads)


def run(
    results: Output[files.AnswerT],
    queries: Iterator[files.Query],
    answer: Callable[..., Iterator[files.AnswerT]],
    model: Model,
    processes: int,
    output: OutputFlags,
    opened: files.QueryFiles | None = None,
    *,
    unit: str = "queries",
    outcome: Callable[[files.AnswerT], str] | None = None,
    outcomes: Sequence[str] = (),
) -> int:
    """Write the answers to all unanswered queries, and print their number to standard error.

    answer: returns the answers to queries, in their order; `done` is the number before them.
    model, processes: that answer; for a hint at more of them.
    opened: the files of the queries, if it is not TABLE. Queries of the command line that are all
        answered on standard output are not counted.
    outcome: one of `outcomes`, of which the numbers are printed, for an answer without an error.

    Returns the status: 1 if a query failed. Raises UsageError if there are no queries, a row cannot
    be read, or `answer` raises ValueError.
    """
    name, began, before = output.output_name, perf_counter(), results.progress.done
    rest = results.rest(queries)
    first = list(islice(rest, 1))
    if not first and not before:
        raise UsageError(f"there are no {unit} in {opened.name if opened else 'TABLE'}")
    written = results.write(answer(chain(first, rest), done=before))
    answers = hinted(written, model, processes)
    if not (name == STANDARD and sys.stdout.isatty() and sys.stderr.isatty()):
        answers = console.counted(answers, unit, opened.count if opened else lambda: None, before)
    with nullcontext() if files.is_stream(name) else console.resumable():
        kinds = Counter(outcome(each) for each in answers if outcome and each.error is None)
    progress = results.progress
    if progress.failed or not (opened and opened.are_given and name == STANDARD):
        seconds = f"in {perf_counter() - began:.1f} s"
        if before:
            new = progress.done - before
            done = f"done before: {before}, now: {new}, {seconds}"
            seconds = done if new else "nothing was left to do"
        why = '; each has its "error" in ' + ("the output" if files.is_stream(name) else name)
        answered = f"{progress.done - progress.failed} of {progress.done} {unit} answered"
        if outcomes:
            now = " now" if before else ""
            answered += f":{now} " + ", ".join(f"{kinds[each]} {each}" for each in outcomes)
        failed = f"{progress.refused} refused, {progress.failed - progress.refused} failed"
        print_err(f"{answered}, {failed}, {seconds}{why if progress.failed else ''}")
    return 1 if progress.failed else 0


def hinted(answers: Iterable[T], model: Model, processes: int) -> Iterator[T]:
    """Pass on the answers of a job; after a while say once that it could use more cores."""
    from molspec.common.workers import usable_cores

    due, could_share = perf_counter() + _LONG, processes == 1 and model.device == "cpu"
    for each in answers:
        if could_share and perf_counter() >= due and (cores := usable_cores()) > 1:
            could_share = False
            print_err(f"hint: --processes all uses all {cores} cores; the answers are the same")
        yield each


def load_model(flags: ModelFlags) -> Model:
    """Load the requested model. Raises ValueError if there is none or it is broken."""
    with _no_garbage(), console.stages(("loading PyTorch", f"loading {flags.model_name}")) as done:
        from molspec.engine.ops import set_num_threads
        from molspec.prediction.model import load

        done()
        set_num_threads(flags.threads)
        loaded = load(flags.model_name, flags.device, flags.dtype)
        done()
        return loaded


def process_count(text: str) -> int:
    """The number of processes of --processes, with a warning if there are fewer cores.

    Raises ValueError for an invalid value.
    """
    from molspec.common import workers

    given: Any = int(text) if text.isdecimal() else text
    count, cores = workers.process_count(given), workers.usable_cores()
    if count > cores:
        print_err(
            f"--processes {count} is more than the number of usable cores, {cores}: "
            "that is slower, not faster"
        )
    return count


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Exclude imported objects from garbage collection, a fifth of the time to the first answer."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()
