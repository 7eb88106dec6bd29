"""The command `evaluate`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from molspec.commands import flags, jobs
from molspec.commands.command import command
from molspec.common import console, fields
from molspec.prediction.options import PredictOptions

if TYPE_CHECKING:
    from molspec.evaluation import Evaluation, Record, Summary


#: Reasons of failed queries that are printed.
_REASONS = 3


@command
def evaluate_command(
    tables: list[Path] = flags.TABLES,
    query_column: str | None = flags.QUERY_COLUMN,
    target_column: str | None = flags.TARGET_COLUMN,
    group_column: str | None = fields.setting(
        None,
        "Report the accuracy for each value of this column too.",
        flags=("--group-column", "--by"),
    ),
    output: Path | None = fields.setting(
        None,
        "Output file of JSON lines: each query's answers and the rank of its target; an "
        "interrupted run resumes.",
        flags=("--output", "-o"),
    ),
    offset: int = fields.setting(0, "Rows to skip at the beginning.", least=0),
    limit: int | None = fields.setting(None, "Maximum rows to read."),
    summary_format: Literal["text", "json"] = fields.setting(
        "text", "Format of the summary.", flags=("--format",)
    ),
    deuterium_as_hydrogen: bool = flags.DEUTERIUM,
    processes: str = flags.PROCESSES,
    *,
    model: flags.ModelFlags,
    options: PredictOptions,
) -> int:
    """Measure accuracy and cost on queries with targets."""
    console.check_standard_output()  # before hours of work
    from molspec.evaluation import Evaluation, PairTable, Settings

    count = jobs.process_count(processes)
    loaded = jobs.load_model(model)
    table = PairTable(tables, query_column, target_column, loaded.task, group_column)
    config = loaded.decode_config(options)
    settings = Settings(table, model.model_name, config, offset, deuterium_as_hydrogen)
    evaluation = Evaluation(settings, output, limit)
    with nullcontext() if output is None else console.resumable():
        records = jobs.hinted(evaluation.run(loaded, count), loaded, count)
        _work_off(records, evaluation.summary, limit)
    _show_summary(evaluation, as_json=summary_format == "json")
    if deuterium_as_hydrogen and loaded.lacks_deuterium and evaluation.labelled:
        console.print_err(
            f"{evaluation.labelled} of {evaluation.summary.queries} queries have deuterium, read "
            "as hydrogen: their targets are compared as they are"
        )
    summary = evaluation.summary
    return 1 if summary.failed or summary.excluded == summary.queries else 0


def _work_off(records: Iterable[Record], summary: Summary, limit: int | None) -> None:
    """Run an evaluation to its end, with its progress."""

    def accuracy() -> str:
        found = summary.accuracy(1)
        return "" if found is None else f"top-1 {100 * found:.1f} %"

    for _ in console.counted(records, "queries", lambda: limit, summary.queries, accuracy):
        pass
    if summary.queries == 0:
        raise console.UsageError("there are no such rows in TABLE")


def _show_summary(evaluation: Evaluation, as_json: bool) -> None:
    from molspec.evaluation import report

    settings, summary = evaluation.settings.to_json(), evaluation.summary
    groups = evaluation.groups
    if as_json:
        values = {"settings": settings, **summary.to_json()}
        if groups:
            values["groups"] = {group: part.to_json() for group, part in groups.items()}
        console.print_out(json.dumps(values, indent=1))
    else:
        console.print_out(report(settings, summary, groups))
    for error, count in summary.errors.most_common(_REASONS):
        console.print_err(f"{count} of {summary.queries} queries failed: {error}")
    if (others := len(summary.errors) - _REASONS) > 0:
        console.print_err(f"{others} other reasons; --output or --format json has them all")
    if evaluation.repeats:
        console.print_err(
            f"{evaluation.repeats} of {summary.queries} rows repeat a reaction before them, in any "
            "spelling: each counts as a query, so the true intervals are wider; give one row for "
            "each, and --augmentations for its spellings"
        )
    if summary.excluded:
        console.print_err(
            f"{summary.excluded} of {summary.queries} targets are not molecules to RDKit: "
            "not counted for accuracy"
        )
