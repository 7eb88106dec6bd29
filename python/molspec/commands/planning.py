"""The command `plan`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from molspec import __version__, files
from molspec.commands import flags, jobs
from molspec.commands.command import argument, command, extra
from molspec.common.console import UsageError
from molspec.common.fields import setting
from molspec.common.task import Task
from molspec.files import OutputContext, Query
from molspec.planners.routes import OUTCOMES, Plan, SearchLimits

if TYPE_CHECKING:
    from molspec.planners.search import Planner
    from molspec.planners.stock import Stock
    from molspec.prediction.model import Model


@dataclass(frozen=True)
class RetroFlags(flags.ModelFlags):
    """Options of the model of reactants."""

    model_name: str = setting(
        "retro",
        "retro, or the path of a checkpoint; several, or A+B, are averaged.",
        flags=("--model", "-m"),
        joint="+",
    )


@dataclass(frozen=True)
class SearchFlags:
    """How routes are searched for, and checked."""

    n_best: int = setting(10, "Reactions for each molecule.", most=1000, flags=("--n-best", "-n"))
    algorithm: Literal["retro-star", "mcts"] = setting(
        "retro-star", "Search algorithm of Syntheseus."
    )
    check: str | None = setting(
        None, "product, or a checkpoint: does each step give its product? Confirmed routes first."
    )


@dataclass(frozen=True)
class PlanFlags(flags.OutputFlags):
    """The output of plans and its format."""

    output_form: Literal["text", "jsonl", "trees", "csv", "html"] | None = setting(  # type: ignore[assignment]
        None, flags.FORMAT, flags=flags.FORMAT_FLAGS
    )


@command
def plan_command(
    targets: list[str] | None = argument("Targets.", None, metavar="TARGET"),
    first: bool = setting(False, "End a search at its first route, as --routes 1 does."),
    cache: Path | None = setting(None, "Prediction cache (SQLite file), reused by later searches."),
    copy_column: list[str] | None = flags.COPY_COLUMN,
    *,
    search: SearchFlags,
    limits: SearchLimits,
    output: PlanFlags,
    processes: str = flags.PROCESSES,
    source: flags.InputFlags,
    stock: flags.StockFlags,
    model: RetroFlags,
) -> int:
    """Find routes from purchasable molecules to targets. Syntheseus searches."""
    jobs.check_queries(targets, source, "targets")
    with extra("plan", "planning"):
        import syntheseus  # noqa: F401
    from molspec.checkpoints.bundled import locate
    from molspec.checkpoints.ensemble import members
    from molspec.planners.formats import COLUMNS, FORMATS
    from molspec.planners.search import planner_of
    from molspec.planners.stock import read_stock
    from molspec.prediction.cache import AnswerCache
    from molspec.prediction.config import model_settings

    limits = replace(limits, routes=1) if first else limits
    form = jobs.chosen_format(output, FORMATS)
    copied = tuple(copy_column or ())
    jobs.check_copied(copied, form, FORMATS[form].has_columns, COLUMNS)
    count = jobs.process_count(processes)
    with files.open_sources(source.input_names, source.input_form, targets or ()) as opened:
        for_sale = read_stock(**stock.arguments())
        stock.tell()
        loaded, forward = _loaded(model, count, "retro"), None
        checked, checking = "", {}
        reads = {**jobs.files_read(model, source), "--stock": stock.files}
        if check := search.check:
            forward = _loaded(replace(model, model_name=check), count, "product")
            checked = f"checked with {check}, {forward.dtype}; "
            checking = {"check": model_settings(check, forward.identity)}
            reads["--check"] = [*map(locate, members(check))]
        queries = opened.queries(source.column, source.id_column, "retro", copied)
        files.check_apart(reads, AnswerCache.files(cache))
        about = f"Found with {model.model_name}, {loaded.dtype}; {checked}molspec {__version__}."
        context = OutputContext(model.model_name, "retro", about=about, copied_columns=copied)
        settings = {
            **model_settings(model.model_name, loaded.identity),
            "n_best": search.n_best,
            "algorithm": search.algorithm,
            **asdict(limits),
            **source.reading,
            "stock": _digest(for_sale),
            "match": for_sale.match,
            "format": form,
            "copy_column": list(copied),
            **checking,
        }
        reads["--cache"] = cache
        results = jobs.open_results(output, FORMATS[form], context, settings, reads)
        planner = partial(
            planner_of,
            *(loaded, for_sale, limits, search.n_best, search.algorithm, forward),
            cache=cache,
            **source.reading,
        )
        plans = partial(_plans, planner, count)
        return jobs.run(
            *(results, queries, plans, loaded, count, output, opened),
            unit="targets",
            outcome=attrgetter("outcome"),
            outcomes=OUTCOMES,
        )


def _loaded(model: flags.ModelFlags, processes: int, task: Task) -> Model:
    """The model. Raises UsageError if it is of another task."""
    loaded = jobs.load_model(model)
    loaded.check_processes(processes)
    if loaded.task not in (task, None):
        option, given = "model" if task == "retro" else "check", model.model_name
        raise UsageError(
            f"{option} is {given!r}: expected one of task {task!r}, it is of {loaded.task!r}"
        )
    return loaded


def _plans(
    make_planner: Callable[[], Planner], processes: int, queries: Iterator[Query], done: int
) -> Iterator[Plan]:
    """The plans for targets, in their order, by a planner in each process."""
    from molspec.common.workers import DIED, in_processes

    def work(targets: Iterator[tuple[int, Query]]) -> Iterator[Plan]:
        planner = make_planner()
        return (planner.plan(query, number) for number, query in targets)

    def failed(target: tuple[int, Query]) -> Plan:
        return Plan(*target, error=DIED)

    targets = enumerate(queries, start=done + 1)
    if processes == 1:
        return work(targets)
    make_planner()  # wrong arguments are an error here, not in every worker
    return in_processes(work, targets, processes, failed, piece=1)


def _digest(stock: Stock) -> str:
    """A number that differs between stocks and does not depend on their order."""
    every = (*stock.items(), *stock.prices.items(), *stock.salts.items())
    entries = (blake2b(repr(entry).encode(), digest_size=16) for entry in every)
    return f"{sum(int(each.hexdigest(), 16) for each in entries) % 2**128:032x}"
