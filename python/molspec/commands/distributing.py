"""The commands `predict-parquet` and `plan-parquet`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

from molspec.commands import jobs, planning
from molspec.commands.command import Given, argument, command, extra
from molspec.commands.flags import RAW, InputFlags, ModelFlags, StockFlags
from molspec.common import console, fields, journal
from molspec.planners.routes import SearchLimits
from molspec.prediction.options import PredictOptions

if TYPE_CHECKING:
    from molspec.prediction.model import Model

_QUERIES = ("column", "keep_salts", "deuterium_as_hydrogen")
#: Marks an unfinished folder of this command, with its settings. Parquet's readers skip it.
_MARK = ".molspec"


@command
def predict_parquet_command(
    source: Path = argument("A Parquet file, or a folder of them."),
    output: Path = argument("Folder for the rows with their predictions."),
    workers: int = fields.setting(1, "Processes; on cuda each has a GPU."),
    block_rows: int = fields.setting(1024, "Rows a worker takes at a time."),
    *,
    queries: Annotated[dict[str, Any], Given(InputFlags, _QUERIES)],
    model: ModelFlags,
    options: PredictOptions,
    raw: bool = RAW,
) -> int:
    """Predict for rows of Parquet files on a Ray cluster.

    RAY_ADDRESS names the cluster; without it, this machine is the cluster. All of its machines must
    see the paths.
    """
    options = options if raw else options.distinct()
    ray, loaded, how, began = _begin("predict-parquet", source, output, workers, block_rows, model)
    table = ray.read(source)
    column, added = queries.get("column"), ray.columns()
    ray.check(table.schema().names, column, loaded.task, added)
    loaded.decode_config(options)
    given = (str(source), loaded.identity.weights, model.device, how["dtype"], queries, options)
    answered = partial(ray.predict, table, model.model_name, options=options, **how, **queries)
    return _written(ray, output, repr(given), answered, began)


@command
def plan_parquet_command(
    source: Path = argument("A Parquet file, or a folder of them."),
    output: Path = argument("Folder for the rows with their routes."),
    workers: int = fields.setting(1, "Processes; on cuda each has a GPU."),
    block_rows: int = fields.setting(16, "Rows a worker takes at a time."),
    *,
    search: planning.SearchFlags,
    limits: SearchLimits,
    stock: StockFlags,
    queries: Annotated[dict[str, Any], Given(InputFlags, _QUERIES)],
    model: planning.RetroFlags,
) -> int:
    """Find routes to targets of Parquet files on a Ray cluster.

    As predict-parquet does; all machines must see the stock too.
    """
    with extra("plan-parquet", "planning"):
        from molspec.planners.search import planner_of
    from molspec.planners.stock import read_stock

    ray, loaded, how, began = _begin("plan-parquet", source, output, workers, block_rows, model)
    for_sale = read_stock(**stock.arguments())
    forward = None if search.check is None else _on_cpu(replace(model, model_name=search.check))[0]
    planner_of(loaded, for_sale, limits, search.n_best, search.algorithm, forward)
    table = ray.read(source)
    column, added = queries.get("column"), ray.plan_columns()
    ray.check(table.schema().names, column, "retro", added)
    identities = [each and each.identity.weights for each in (loaded, forward)]
    given = (str(source), identities, model.device, how["dtype"], queries, limits, search, stock)
    asked = {"limits": limits, "stock": stock.arguments(), **asdict(search), **queries}
    answered = partial(ray.plan, table, model.model_name, **asked, **how)
    return _written(ray, output, repr(given), answered, began)


def _begin(
    name: str, source: Path, output: Path, workers: int, block_rows: int, model: ModelFlags
) -> tuple[Any, Model, dict[str, Any], float]:
    """The functions of Ray, the model, what both functions are told of workers, and the time."""
    if output.exists() and not (output / _MARK).exists():
        raise console.UsageError(f"{output} is there already: take another folder")
    if not source.exists():
        raise console.UsageError(f"{source} is not there: expected Parquet, a file or a folder")
    ray = _ray(name, workers * model.threads)
    began = perf_counter()
    loaded, dtype = _on_cpu(model)
    how = {"device": model.device, "dtype": dtype, "threads": model.threads}
    return ray, loaded, {**how, "workers": workers, "block_rows": block_rows}, began


def _on_cpu(flags: ModelFlags) -> tuple[Model, str | None]:
    """The model on the CPU, and the dtype of workers.

    So errors appear here, and not once for every worker; only workers need a GPU.
    """
    on_cpu = flags.device == "cpu"
    dtype = flags.dtype if on_cpu else "float32"
    loaded = jobs.load_model(replace(flags, device="cpu", dtype=dtype))
    return loaded, loaded.dtype if on_cpu else flags.dtype


def _written(ray: Any, output: Path, settings: str, answer: Callable[[], Any], began: float) -> int:
    """Write the rows, unless they are; count them. Returns the status: 1 if a row failed."""
    unfinished = output.with_name(output.name + ".unfinished")
    if not _is_written(output, unfinished, settings):
        with _begun(unfinished, settings):
            answer().write_parquet(str(unfinished), mode="append")
            unfinished.rename(output)
    (output / _MARK).unlink()
    count, failed = ray.count(output)
    why = f'; each has its "error" in {output}' if failed else ""
    seconds = perf_counter() - began
    rows = f"{count - failed} of {count} rows answered"
    console.print_err(f"{rows}, {failed} failed, in {seconds:.1f} s{why}")
    return 1 if failed else 0


def _is_written(output: Path, unfinished: Path, settings: str) -> bool:
    """Whether this command has written all rows.

    Raises UsageError if it has a file that this command has not written.
    """
    for folder in (output, unfinished):
        if not os.path.lexists(folder):
            continue
        mark = folder / _MARK
        begun = mark.read_text(encoding="utf-8") if mark.is_file() else None
        if folder == output and begun == settings:
            return True
        if folder == output or folder.is_symlink() or not (begun or _is_empty(folder)):
            raise console.UsageError(f"{folder} is there already: take another folder")
    return False


@contextmanager
def _begun(unfinished: Path, settings: str) -> Iterator[None]:
    """Make the folder, or clear it, with its mark, which is locked until the end.

    Raises OSError, naming the mark, if another job writes the folder.
    """
    unfinished.mkdir(exist_ok=True)
    mark = unfinished / _MARK
    with journal.open_alone(mark, "ab") as stream:
        for path in unfinished.iterdir():
            if path != mark:
                path.unlink()
        stream.truncate(0)
        journal.write_whole(stream, settings.encode(), str(mark))
        yield


def _is_empty(folder: Path) -> bool:
    """Whether a folder has nothing but an unwritten mark."""
    return folder.is_dir() and {path.name for path in folder.iterdir()} <= {_MARK}


def _ray(name: str, processors: int) -> Any:
    """A function that answers tables on the named cluster, or on one of this machine.

    The latter has one processor more than the workers, for the tasks that read and write: otherwise
    they would wait for each other.
    """
    with extra(name, "ray"):
        import ray

        from molspec import ray as distributed
    if not ray.is_initialized():
        named = "RAY_ADDRESS" in os.environ
        ray.init(**{} if named else {"address": "local", "num_cpus": processors + 1})
    return distributed
