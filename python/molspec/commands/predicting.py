"""The commands `predict` and `score`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from molspec import __version__, files
from molspec.commands import flags, jobs
from molspec.commands.command import Given, argument, command
from molspec.common import console, fields
from molspec.files import FORMATS, Answer, OutputContext, Query, predicting
from molspec.prediction.options import PredictOptions

if TYPE_CHECKING:
    from molspec.prediction.config import DecodeConfig
    from molspec.prediction.model import Model


@command
def predict_command(
    smiles: list[str] | None = argument("Queries.", None, metavar="SMILES"),
    *,
    source: flags.InputFlags,
    output: flags.PredictionFlags,
    model: flags.ModelFlags,
    options: PredictOptions,
    raw: bool = flags.RAW,
    processes: str = flags.PROCESSES,
    copy_column: list[str] | None = flags.COPY_COLUMN,
) -> int:
    """Predict for every query, in order. The same command resumes an interrupted run."""
    count = jobs.process_count(processes)
    options = options if raw else options.distinct()
    jobs.check_queries(smiles, source)
    form = jobs.chosen_format(output, FORMATS)
    with files.open_sources(source.input_names, source.input_form, smiles or ()) as opened:
        loaded = jobs.load_model(model)
        given = click.get_current_context().get_parameter_source("batch_size")
        if source.input_names and given is not None and given.name == "DEFAULT":
            from molspec.prediction.strategy import batch_of_files

            options = replace(options, batch_size=batch_of_files(options, loaded.device))
        config = loaded.decode_config(options)
        copied = tuple(copy_column or ())
        several = set[bool]()
        columns = source.column, source.id_column, loaded.task, copied
        queries = opened.queries(*columns, atomwise=loaded.reader.reads_smiles)
        results = _results(form, source, output, loaded, model, config, copied)
        answer = partial(files.predict, loaded, options=config, processes=count, **source.reading)
        noted = _noted(queries, several)
        status = jobs.run(results, noted, answer, loaded, count, output, opened)
    progress = results.progress
    if loaded.task == "product" and True not in several and progress.failed < progress.done:
        console.print_err(
            "hint: every query is a single molecule, and this model predicts what reactants "
            "give; -m retro predicts the reactants of a product"
        )
    return status


def _noted(queries: Iterator[Query], several: set[bool]) -> Iterator[Query]:
    """The queries; whether one has several molecules is noted in a set."""
    for query in queries:
        several.add(not {".", "~", ">"}.isdisjoint(query.smiles))
        yield query


@command
def score_command(
    tables: list[Path] = flags.TABLES,
    query_column: str | None = flags.QUERY_COLUMN,
    target_column: str | None = flags.TARGET_COLUMN,
    *,
    output: flags.OutputFlags,
    aligned: bool | None = fields.setting(
        None,
        "Score each target's molecule in the model's spelling, or the target as it is spelt; by "
        "default aligned for models of root-aligned SMILES.",
        flags=("--aligned/--plain",),
    ),
    deuterium_as_hydrogen: bool = flags.DEUTERIUM,
    processes: str = flags.PROCESSES,
    model: flags.ModelFlags,
    options: Annotated[dict[str, Any], Given(PredictOptions, ("batch_size", "canonical_queries"))],
) -> int:
    """Compute how probable each target of a table is."""
    from molspec.evaluation import PairTable
    from molspec.prediction.config import model_settings

    form = jobs.chosen_format(output, FORMATS)
    count = jobs.process_count(processes)
    loaded = jobs.load_model(model)
    _check_task(form, loaded)
    aligned = loaded.resolve_aligned(aligned)
    table = PairTable(tables, query_column, target_column, loaded.task)
    options.setdefault("canonical_queries", loaded.canonical_queries)
    settings = {
        **model_settings(model.model_name, loaded.identity),
        "canonical_queries": options["canonical_queries"],
        "aligned": aligned,
        "format": form,
        "deuterium_as_hydrogen": deuterium_as_hydrogen,
    }
    context = OutputContext(model.model_name, loaded.task, as_written=True)
    reads = {**jobs.files_read(model), "TABLE": tables}
    results = jobs.open_results(output, FORMATS[form], context, settings, reads)
    options |= {"aligned": aligned, "deuterium_as_hydrogen": deuterium_as_hydrogen}
    answer = partial(predicting.score, loaded, processes=count, **options)
    queries = (Query(row.query, row.name, target=row.target) for row in table)
    return jobs.run(results, queries, answer, loaded, count, output)


def _results(
    form: str,
    source: flags.InputFlags,
    output: flags.PredictionFlags,
    loaded: Model,
    model: flags.ModelFlags,
    config: DecodeConfig,
    copied: tuple[str, ...],
) -> jobs.Output[Answer]:
    """The output. Raises ValueError if it belongs to another job."""
    options = config.options
    _check_task(form, loaded)
    how = f"{loaded.dtype}, {_how(options)}; molspec {__version__}"
    about = f"Answered by {model.model_name}, {how}."
    context = OutputContext(
        model.model_name,
        loaded.task,
        output.as_written,
        about,
        further_columns=files.further_columns(options),
        copied_columns=copied,
    )
    _check_columns(copied, form, context, options)
    settings = {
        **config.answer_settings(model.model_name),
        "format": form,
        "as_written": output.as_written,
        "copy_column": list(copied),
        **source.reading,
    }
    reads = jobs.files_read(model, source)
    return jobs.open_results(output, FORMATS[form], context, settings, reads)


def _check_task(form: str, loaded: Model) -> None:
    """Raise UsageError for reactions of a model without a task."""
    if form == "rsmi" and loaded.task is None:
        raise console.UsageError("format is 'rsmi': the model does not say which side it answers")


def _check_columns(
    copied: tuple[str, ...], form: str, context: OutputContext, options: PredictOptions
) -> None:
    """Raise UsageError if columns cannot be copied, or a field be written, to the output."""
    for name in context.further_columns:
        # An option of a field's name asks for nothing else.
        if not FORMATS[form].has_columns and getattr(options, name, False) is True:
            those = f"one of {', '.join(name for name, it in FORMATS.items() if it.has_columns)}"
            raise console.UsageError(f"{name} is True with the format {form}: expected {those}")
    taken = (*files.COLUMNS, *context.further_columns)
    jobs.check_copied(copied, form, FORMATS[form].has_columns, taken)


def _how(options: PredictOptions) -> str:
    if options.samples is not None:
        return f"by {options.samples} samples"
    if options.verification == "relaxed":
        return "greedily, with tokens tolerated that the model would not write"
    return "greedily" if options.is_greedy else f"by a beam of {options.width}"
