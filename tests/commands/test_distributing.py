"""`predict-parquet` and its workers without Ray and pyarrow; tests/test_ray.py has both."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

import molspec
from molspec.commands import distributing
from tests import conftest, refused
from tests.commands.conftest import write

QUERIES = ["CCO", "CC(=O)Nc1ccc(O)cc1.Cl", "CX", None, 5, "CCN.CCO\n", "[2H]CCO"]
_SHARED = ("smiles", "canonical", "log_prob", "finished", "note")


class Table:
    """Of pyarrow's Table and Ray's Dataset, what the module uses, on one machine."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self.columns = dict(columns)

    @property
    def column_names(self) -> list[str]:
        return list(self.columns)

    def schema(self) -> SimpleNamespace:
        return SimpleNamespace(names=self.column_names)

    def column(self, index: int) -> SimpleNamespace:
        return SimpleNamespace(to_pylist=lambda: list(self.columns.values())[index])

    def append_column(self, name: str, values: Sequence[Any]) -> Table:
        return Table({**self.columns, name: values})

    def repartition(self, *, target_num_rows_per_block: int) -> Table:
        del target_num_rows_per_block
        return self

    def map_batches(
        self, kind: Any, *, fn_constructor_kwargs: Mapping[str, Any], **_: Any
    ) -> Table:
        answered: Table = kind(**fn_constructor_kwargs)(self)
        return answered

    def write_parquet(self, folder: str, *, mode: str) -> None:
        assert mode == "append"
        (Path(folder) / "rows").write_text(json.dumps(self.columns))


@pytest.fixture
def distributed(loaded: conftest.Loaded, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`molspec.ray` with the fake model, of the task retro, and a table of the queries."""
    pyarrow = MagicMock()
    pyarrow.array = lambda values, kind: values
    for name, module in {"pyarrow": pyarrow, "ray": MagicMock(), "ray.data": MagicMock()}.items():
        monkeypatch.setitem(sys.modules, name, module)
    spec = spec_from_file_location("stand_in", Path(molspec.__file__).with_name("ray.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    loaded["model"].task = "retro"
    write("queries", "")
    monkeypatch.setattr(module, "load", lambda *_: loaded["model"])
    monkeypatch.setattr(module, "read", lambda _: Table({"product": QUERIES}))
    monkeypatch.setattr(module, "count", lambda _: (len(QUERIES), 1))
    monkeypatch.setattr(distributing, "_ray", lambda *_: module)
    return module


@pytest.mark.parametrize("flags", [(), ("--raw",), ("--keep-salts", "--deuterium-as-hydrogen")])
def test_rows_are_answered_as_by_predict(
    distributed: ModuleType, loaded: conftest.Loaded, flags: Sequence[str], run: conftest.Run
) -> None:
    output = Path("answers")
    more = ("-n", "3", *flags)
    assert run("predict-parquet", "queries", "answers", *more) == 1
    options = loaded["model"].options
    columns = json.loads((output / "rows").read_text())
    assert list(columns) == ["product", "predictions", "note", "error"]
    queries = ["" if query is None else str(query) for query in QUERIES]
    assert run("predict", *queries, "-f", "jsonl", *more) == 1
    assert loaded["model"].options == options
    expected = [json.loads(line) for line in run.out.splitlines()]
    assert columns["note"] == [answer["note"] for answer in expected]
    assert columns["error"] == [answer["error"] for answer in expected]
    for predictions, answer in zip(columns["predictions"], expected, strict=True):
        shared = [{name: each[name] for name in _SHARED} for each in predictions]
        assert shared == answer["predictions"]


def test_the_mark_of_settings_has_those_of_answers(
    distributed: ModuleType, run: conftest.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del distributed
    settings: list[str] = []

    def is_written(output: Path, _: Path, settings_: str) -> bool:
        settings.append(settings_)
        return True

    monkeypatch.setattr(distributing, "_is_written", is_written)
    Path("answers").mkdir()
    for flags in ("", "--raw", "--keep-salts", "--column product"):
        Path("answers/.molspec").touch()
        assert run(f"predict-parquet queries answers -n 3 {flags}") == 1
    assert len(set(settings)) == 4


def test_the_second_of_two_jobs_clears_no_folder(
    distributed: ModuleType, run: conftest.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del distributed
    command = "predict-parquet queries answers"
    write, statuses = Table.write_parquet, []

    def write_beside_another(self: Table, folder: str, *, mode: str) -> None:
        write(self, folder, mode=mode)
        monkeypatch.setattr(Table, "write_parquet", write)
        statuses.append(run(command))

    monkeypatch.setattr(Table, "write_parquet", write_beside_another)
    assert run(command) == 1
    assert statuses == [2]
    assert [path.name for path in Path("answers").iterdir()] == ["rows"]


def test_columns_of_answers_are_refused_in_a_table(distributed: ModuleType) -> None:
    given = (["smiles", "note"], None, "retro", distributed.columns())
    refused("the table has a column 'note'", distributed.check, *given)
