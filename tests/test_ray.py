"""Tables answered by Ray's workers, if Ray is installed: `nox -s ray`."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed: nox -s ray has it")
pytest.importorskip("syntheseus", reason="Syntheseus is not installed: nox -s ray has it")

import pyarrow as pa
import ray
from pyarrow import parquet

from molspec import checkpoints, ray as distributed
from molspec.files import Query
from molspec.planners.routes import SearchLimits
from molspec.planners.stock import read_stock
from molspec.prediction.model import load
from molspec.prediction.options import PredictOptions
from tests import tiny
from tests.conftest import Run
from tests.planners.conftest import STOCK, TARGETS

pytestmark = pytest.mark.filterwarnings("default")

OPTIONS = PredictOptions(n_best=3, max_length=20)
QUERIES = [*tiny.QUERIES[:6], "not SMILES", "CC(C"]
ROWS = 400


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    """Two processors for workers, and one for reading and writing tables."""
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A random model, and a table with ids that repeats some queries."""
    checkpoints.write(tiny.checkpoint(), tmp_path / "tiny")
    queries = [QUERIES[number % len(QUERIES)] for number in range(ROWS)]
    table = pa.table({"id": range(ROWS), "smiles": queries, "batch": ["first"] * ROWS})
    parquet.write_table(table, tmp_path / "queries.parquet")
    return tmp_path


def expected(folder: Path) -> list[dict[str, Any]]:
    """The expected rows, from the model without Ray."""
    results = load(folder / "tiny").predict_stream(QUERIES, OPTIONS)
    answers = [
        {
            "predictions": [
                {**vars(found), "canonical": found.canonical, "note": result.doubt(found) or None}
                for found in result.predictions
            ],
            "note": None,
            "error": result.error,
        }
        for result in results
    ]
    return [
        {"id": number, "smiles": QUERIES[index], "batch": "first", **answers[index]}
        for number in range(ROWS)
        for index in [number % len(QUERIES)]
    ]


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parquet.read_table(path).sort_by("id").to_pylist()
    return found


@contextmanager
def mortal(name: str, folder: Path) -> Iterator[None]:
    """A worker kills its process once, at the third answered table, before it returns it."""
    marks = folder / "marks"
    marks.mkdir()
    original = getattr(distributed, name)

    class Mortal(original):  # type: ignore[misc,valid-type]
        def __call__(self, table: pa.Table) -> pa.Table:
            answered = super().__call__(table)
            (marks / f"{os.getpid()}-{table['id'][0].as_py()}").touch()
            if len(list(marks.iterdir())) >= 3 and not (folder / "killed").exists():
                (folder / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return answered

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, name, Mortal)
        yield
    assert (folder / "killed").exists()
    workers = {mark.name.split("-")[0] for mark in marks.iterdir()}
    assert len(workers) == 3  # two, and the replacement of the killed one


def test_every_row_is_answered_once_although_a_worker_is_killed(folder: Path) -> None:
    """The predictions equal those of the model without Ray, to the bit."""
    table = ray.data.read_parquet(str(folder / "queries.parquet"))
    with mortal("Predictor", folder):
        answered = distributed.predict(
            table, folder / "tiny", workers=2, block_rows=16, options=OPTIONS
        )
        answered.write_parquet(str(folder / "answers"))
    assert rows(folder / "answers") == expected(folder)


def test_command_writes_the_expected_rows(folder: Path, run: Run) -> None:
    command = ("predict-parquet", str(folder / "queries.parquet"), str(folder / "answers"))
    options = ("-m", str(folder / "tiny"), "-n", "3", "--raw", "--max-length", "20")
    assert run(*command, *options, "--block-rows", "100") == 1
    assert rows(folder / "answers") == expected(folder)
    assert not (folder / "answers.unfinished").exists()
    assert f"{ROWS * 3 // 4} of {ROWS} rows answered, {ROWS // 4} failed" in run.err
    assert not (folder / "answers" / ".molspec").exists()
    assert run(*command, *options) == 2
    assert "is there already" in run.err


def test_plans_are_those_of_the_planner_although_a_worker_is_killed(tmp_path: Path) -> None:
    """Expansions, routes and errors, to the bit; the killed worker's rows are planned again."""
    from molspec.planners.search import planner_of

    targets = [*TARGETS, "not SMILES", *TARGETS, "CCO"]
    table = ray.data.from_arrow(pa.table({"id": range(len(targets)), "smiles": targets}))
    limits = SearchLimits(routes=2, seconds=600.0, expansions=8)
    given: Any = {"stock": {"paths": [str(STOCK)]}, "limits": limits, "n_best": 5}
    with mortal("RoutePlanner", tmp_path):
        planned = distributed.plan(table, workers=2, block_rows=2, **given)
        planned.write_parquet(str(tmp_path / "plans"))
    plan = planner_of(load("retro"), read_stock(STOCK), limits, 5).plan
    for row, target in zip(rows(tmp_path / "plans"), targets, strict=True):
        expected = plan(Query(target)).to_json()
        for name in ("expansions", "stopped", "error"):
            assert row[name] == expected[name]
        found, routes = (
            [[(step["reaction"], step["log_prob"]) for step in route["steps"]] for route in each]
            for each in (row["routes"], expected["routes"])
        )
        assert found == routes


def test_command_refuses_to_remove_a_foreign_folder(folder: Path, run: Run) -> None:
    """The folder holds the rows that the command reads."""
    other = folder / "answers.unfinished"
    other.mkdir()
    (folder / "queries.parquet").rename(other / "queries.parquet")
    before = (other / "queries.parquet").read_bytes()
    options = ("-m", str(folder / "tiny"), "--max-length", "20")
    assert run("predict-parquet", str(other), str(folder / "answers"), *options) == 2
    assert f"{other} is there already: take another folder" in run.err
    assert (other / "queries.parquet").read_bytes() == before


def test_unusable_tables_are_refused(folder: Path, run: Run) -> None:
    model = ("-m", str(folder / "tiny"))
    for names, message in (
        ({"id": [1], "text": ["CCO"]}, "none of the columns isomeric_smiles"),
        ({"smiles": ["CCO"], "error": [None]}, "the table has a column 'error'"),
    ):
        parquet.write_table(pa.table(names), folder / "other.parquet")
        assert run("predict-parquet", str(folder / "other.parquet"), str(folder / "a"), *model) == 2
        assert message in run.err
    assert run("predict-parquet", str(folder / "none"), str(folder / "a"), *model) == 2
    assert "is not there" in run.err


@pytest.mark.parametrize(
    ("address", "given"), [(None, {"address": "local", "num_cpus": 7}), ("host:6379", {})]
)
def test_new_cluster_has_a_processor_for_reading(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, address: str | None, given: object
) -> None:
    """If the workers took every processor, they would wait for the rows forever."""
    started: list[object] = []
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address is not None:
        monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **values: started.append(values))
    model = ("-m", str(folder / "none"), "--workers", "3", "--threads", "2")
    assert run("predict-parquet", str(folder / "queries.parquet"), str(folder / "a"), *model) == 2
    assert started == [given]
