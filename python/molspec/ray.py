"""Answers and plans for tables of any size on a Ray cluster: each row once, in any order.

    import molspec, ray
    from molspec.ray import predict

    table = ray.data.read_parquet("queries")
    options = molspec.PredictOptions(n_best=10).distinct()
    predict(table, "retro", workers=8, options=options).write_parquet("answers")

Ray reads, distributes, repeats the rows of dead workers, and writes. Answers are those of
`molspec.files.predict`, to the bit, for any workers and blocks. `plan(table)` finds routes as
`molspec plan` does: the same ones, to the bit, where searches end by expansions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import pyarrow as pa
import ray.data
from pyarrow import dataset

from molspec.common.fields import wrong
from molspec.common.tables import choose_column
from molspec.common.task import Task
from molspec.engine.ops import set_num_threads
from molspec.files import Query, predict as predict_queries, query_column
from molspec.planners.routes import SearchLimits
from molspec.prediction.model import load
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import answer_fields

_TYPES = {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_()}


def _type(kind: Any) -> pa.DataType:
    """The type of a field of a prediction."""
    if get_origin(kind) is tuple:
        return pa.list_(_type(get_args(kind)[0]))
    (kind,) = {*(get_args(kind) or (kind,))} - {NoneType}
    return _TYPES[kind] if kind in _TYPES else _type(kind)


def columns() -> dict[str, pa.DataType]:
    """The columns that a row gets, named as in `molspec predict -f jsonl`."""
    fields = {each.name: _type(each.kind) for each in answer_fields()}
    found = pa.struct({**fields, "note": pa.string()})
    return {"predictions": pa.list_(found), "note": pa.string(), "error": pa.string()}


class Predictor:
    """A worker's model, for `map_batches` with batch_format="pyarrow".

    column: of the queries; by default as in files (docs/files.md).
    keep_salts, deuterium_as_hydrogen: as of `molspec.files.predict`.

    Raises ValueError if there is no such model, or it does not support the options.
    """

    def __init__(
        self,
        model: str | Path = "product",
        *,
        device: str = "cpu",
        dtype: str | None = None,
        threads: int = 1,
        column: str | None = None,
        options: PredictOptions | None = None,
        keep_salts: bool = False,
        deuterium_as_hydrogen: bool = False,
    ) -> None:
        set_num_threads(threads)
        self._model = load(model, device, dtype)
        self._config = self._model.decode_config(options)
        self._column = column
        self._reading = {"keep_salts": keep_salts, "deuterium_as_hydrogen": deuterium_as_hydrogen}

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The rows, each with its predictions, or its error. Raises ValueError as `check` does."""
        queries = _queries(rows, self._column, self._model.task, columns())
        answers = predict_queries(self._model, queries, self._config, **self._reading)
        found = [
            {
                "predictions": [
                    {**each.to_json(), "note": answer.result.doubt(each) or None}
                    for each in answer.result.predictions
                ],
                "note": answer.query.note or None,
                "error": answer.error,
            }
            for answer in answers
        ]
        return _with(rows, found, columns())


def plan_columns() -> dict[str, pa.DataType]:
    """The columns that a row gets from `plan`, named as in `molspec plan -f jsonl`."""
    text, texts, number = pa.string(), pa.list_(pa.string()), pa.float64()
    check = pa.struct(
        {"log_prob": number, "answer": text, "answer_log_prob": number, "error": text}
    )
    step = pa.struct(
        {"reaction": text, "log_prob": number, "racemic": texts, "turned": texts, "check": check}
    )
    route = {"log_prob": number, "leaves": texts, "confirmed": pa.bool_(), "steps": pa.list_(step)}
    entry = pa.struct({**route, "alternatives": pa.list_(pa.struct(route))})
    return {
        "routes": pa.list_(entry),
        "expansions": pa.int64(),
        **dict.fromkeys(("seconds", "first_seconds"), number),
        **dict.fromkeys(("names", "prices", "bought"), pa.map_(text, text)),
        "stopped": text,
        "missing": texts,
        "attempt": pa.struct(route),
        "min_share": number,
        "note": text,
        "error": text,
    }


class RoutePlanner:
    """A worker's models and stock, for `map_batches` with batch_format="pyarrow".

    stock: arguments of `read_stock`, as {"paths": ["stock.smi"]}; by default the stock `common`.
    check: a model of products, asked about each step. Others are those of `molspec plan`.

    Raises ValueError if a model is not there or of another task, and as `read_stock` does.
    """

    def __init__(
        self,
        model: str | Path = "retro",
        *,
        device: str = "cpu",
        dtype: str | None = None,
        threads: int = 1,
        column: str | None = None,
        stock: Mapping[str, Any] | None = None,
        limits: SearchLimits | None = None,
        check: str | Path | None = None,
        **settings: Any,
    ) -> None:
        from molspec.planners.search import planner_of
        from molspec.planners.stock import read_stock

        set_num_threads(threads)
        self._column = column
        self._planner = planner_of(
            *(load(model, device, dtype), read_stock(**stock or {}), limits or SearchLimits()),
            forward=None if check is None else load(check, device, dtype),
            **settings,
        )

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The rows, each with its plan, or its error. Raises ValueError as `check` does."""
        queries = _queries(rows, self._column, "retro", plan_columns())
        found = [self._planner.plan(query).to_json() for query in queries]
        return _with(rows, found, plan_columns())


def _queries(
    rows: pa.Table, column: str | None, task: Task | None, added: Iterable[str]
) -> list[Query]:
    index = check(rows.column_names, column, task, added)
    return [Query(str(query or "")) for query in rows.column(index).to_pylist()]


def _with(
    rows: pa.Table, found: Sequence[Mapping[str, Any]], added: Mapping[str, pa.DataType]
) -> pa.Table:
    """The rows with a column of each name."""
    for name, kind in added.items():
        rows = rows.append_column(name, pa.array([each[name] for each in found], kind))
    return rows


def check(names: Sequence[str], column: str | None, task: Task | None, added: Iterable[str]) -> int:
    """The column of queries in a table with columns of these names, to which others are added.

    Raises ValueError if it has none, or one of the names that are added.
    """
    if taken := [name for name in added if name in names]:
        raise ValueError(f"the table has a column {taken[0]!r}: expected none of this name")
    wanted = query_column(column, task)
    return choose_column("the table", names, wanted.option, wanted.name, wanted.usual)


def predict(
    table: ray.data.Dataset,
    model: str | Path = "product",
    *,
    workers: int = 1,
    block_rows: int = 1024,
    device: str = "cpu",
    threads: int = 1,
    **settings: Any,
) -> ray.data.Dataset:
    """Answer every row of a table; see `Predictor` for `settings`.

    workers: processes, anywhere in the cluster, each with a model; on "cuda" each with a GPU.
    block_rows: rows that a worker takes at a time, and that are decoded again if it dies.

    Raises ValueError if device is "auto".
    """
    given = {"model": model, "device": device, "threads": threads, **settings}
    return _mapped(table, Predictor, given, workers, block_rows)


def plan(
    table: ray.data.Dataset,
    model: str | Path = "retro",
    *,
    workers: int = 1,
    block_rows: int = 16,
    device: str = "cpu",
    threads: int = 1,
    **settings: Any,
) -> ray.data.Dataset:
    """Plan routes to every row's target; see `RoutePlanner` for `settings`, `predict` for others.

    Raises ValueError if device is "auto".
    """
    given = {"model": model, "device": device, "threads": threads, **settings}
    return _mapped(table, RoutePlanner, given, workers, block_rows)


def _mapped(
    table: ray.data.Dataset,
    worker: type[Any],
    settings: dict[str, Any],
    workers: int,
    block_rows: int,
) -> ray.data.Dataset:
    if settings["device"] == "auto":
        raise wrong("device", "auto", "'cpu', or 'cuda', which gives each worker a GPU")
    blocks = table.repartition(target_num_rows_per_block=block_rows)
    return blocks.map_batches(
        worker,
        fn_constructor_kwargs=settings,
        batch_size=None,
        batch_format="pyarrow",
        zero_copy_batch=True,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=settings["threads"],
        num_gpus=int(settings["device"] != "cpu"),
    )


def read(source: Path) -> ray.data.Dataset:
    """A table of a file, or of a folder of files."""
    return ray.data.read_parquet(str(source))


def count(folder: Path) -> tuple[int, int]:
    """Rows of a folder that was written, and those with an error."""
    written = dataset.dataset(folder)
    return written.count_rows(), written.count_rows(filter=dataset.field("error").is_valid())
