"""The command `plan`, for the command line to register."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from molspec import __version__, files
from molspec.commands import loading
from molspec.commands.flags import STANDARD, InputFlags, ModelFlags, with_flags
from molspec.console.progress import counted, is_shown
from molspec.console.usage import (
    UsageError,
    check_standard_output,
    one_line_errors,
    print_err,
    value_errors_are_usage_errors,
)
from molspec.files import OutputContext, ResultFile, ResultStream

if TYPE_CHECKING:
    from molspec.planners.routes import Plan
    from molspec.planners.search import Limits
    from molspec.predictor import Model

# What needs torch is imported where it is used: `molspec --help` is to answer at once.


@dataclass(frozen=True)
class RetroFlags(ModelFlags):
    """Those of a model of reactants."""

    model_name: Annotated[
        str, typer.Option("--model", "-m", help="retro, or the path of a checkpoint.")
    ] = "retro"


class PlanForm(str, Enum):
    """Forms of plans."""

    text = "text"
    jsonl = "jsonl"
    html = "html"


class Algorithm(str, Enum):
    """Searches of Syntheseus."""

    retro_star = "retro-star"
    mcts = "mcts"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("plan")(plan_command)


@with_flags
def plan_command(
    targets: Annotated[list[str] | None, typer.Argument(help="Targets.", metavar="TARGET")] = None,
    stock: Annotated[
        Path | None, typer.Option(help="Molecules for sale: SMILES, one a line; .gz or .xz too.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Of a search, at most.")] = 10.0,
    routes: Annotated[int, typer.Option(help="Routes a target; a search ends with them.")] = 3,
    expansions: Annotated[
        int | None, typer.Option(help="Molecules that a search asks the model for, at most.")
    ] = None,
    n_best: Annotated[int, typer.Option("--n-best", "-n", help="Reactions a molecule.")] = 10,
    algorithm: Annotated[Algorithm, typer.Option(help="Which search.")] = Algorithm.retro_star,
    cache: Annotated[
        Path | None, typer.Option(help="File of answers of the model, for searches to come.")
    ] = None,
    output_name: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="File for the plans, gone on with where begun; - is stdout."
        ),
    ] = STANDARD,
    output_form: Annotated[
        PlanForm | None,
        typer.Option("--format", "-f", help="As the output's name says, or text, if not given."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin anew where there is such a file.")
    ] = False,
    *,
    source: InputFlags,
    model: RetroFlags,
) -> None:
    """Find routes to targets from what is for sale, by Syntheseus."""
    with one_line_errors():
        with value_errors_are_usage_errors():
            if bool(targets) == (source.input_name is not None):
                raise UsageError("give targets either as SMILES or by --input, FILE or -")
            if stock is None:
                raise UsageError("give --stock, the file of what is for sale")
            _check_installed()
            from molspec.planners import formats

            form = _form(output_name, output_form)
            if output_name == STANDARD:
                check_standard_output()
            formats.FORMATS[form].check()
        with files.open_source(source.input_name, source.form, targets or ()) as opened:
            with value_errors_are_usage_errors():
                from molspec.planners.search import Limits, Planner, read_stock

                limits = Limits(routes, seconds, expansions)
                for_sale = read_stock(stock)
                loaded = loading.load_model(model)
                queries = opened.queries(source.column, source.id_column, "retro")
                settings = {
                    **_searched_with(loaded, model, limits, n_best, algorithm.value),
                    "stock": _digest(for_sale),
                    "format": form,
                }
                target = _target(output_name, form, model, settings, overwrite)
                done = target.progress.done
                rest = target.rest(iter(queries))
                ahead = list(islice(rest, 1))
                if not ahead and not done:
                    raise UsageError(f"there are no targets in {opened.name}")
                from molspec.cache import AnswerCache
                from molspec.planners.expander import Expander
                from molspec.planners.syntheseus import BackwardModel

                expander = Expander(loaded, cache=AnswerCache(path=cache))
                backward = BackwardModel(
                    expander=expander, default_num_results=n_best, use_cache=True
                )
                planner = Planner(backward, for_sale, limits, algorithm.value)
            plans = target.write(planner.plans(chain(ahead, rest), done))
            _work_off(plans, output_name, opened.count(), done)
            if not ahead:
                print_err(f"{output_name} has the plans of all {done} targets")
    raise typer.Exit(1 if target.progress.failed else 0)


def _check_installed() -> None:
    try:
        import syntheseus  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"plan needs Syntheseus, {error}: pip install 'molspec[planning]'"
        ) from error


def _searched_with(
    loaded: Model, model: ModelFlags, limits: Limits, n_best: int, algorithm: str
) -> dict[str, Any]:
    """What decides plans, by which a job knows its own again."""
    return {
        "molspec": __version__,
        "model": model.model_name,
        "weights": loaded.fingerprint,
        "device": model.device,
        "dtype": model.dtype,
        "n_best": n_best,
        "algorithm": algorithm,
        **asdict(limits),
    }


def _digest(stock: set[str]) -> str:
    return blake2b("\n".join(sorted(stock)).encode(), digest_size=16).hexdigest()


def _form(output_name: str, form: PlanForm | None) -> str:
    from molspec.planners import formats

    if form is not None:
        return form.value
    return "text" if files.is_stream(output_name) else files.format_of(output_name, formats.FORMATS)


def _target(
    name: str, form: str, model: ModelFlags, settings: dict[str, Any], overwrite: bool
) -> ResultFile[Plan] | ResultStream[Plan]:
    from molspec.planners import formats

    about = f"Found with {model.model_name}, {model.dtype}; molspec {__version__}."
    context = OutputContext(model.model_name, "retro", about=about)
    if files.is_stream(name):
        return ResultStream(name, formats.FORMATS[form], context)
    return ResultFile(Path(name), formats.FORMATS[form], context, settings, overwrite=overwrite)


def _work_off(plans: Iterator[Plan], output_name: str, total: int | None, done: int) -> None:
    """Let the plans be written, with progress on a terminal that does not show them."""
    if is_shown(output_name == STANDARD and sys.stdout.isatty()):
        plans = counted(plans, "targets", total, done)
    for _ in plans:
        pass
