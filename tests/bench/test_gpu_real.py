"""The queries that are timed on a GPU, and the rows of their times."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "bench" / "gpu"))

import clock
import pytest
import real
import subject
from place import Place

from molspec import checkpoints
from molspec.checkpoints.bundled import locate


@pytest.mark.parametrize(("name", "most", "mean"), [("product", 128, 60), ("retro", 64, 40)])
def test_queries_are_read_by_the_model_and_long_as_real_ones(
    name: str, most: int, mean: int
) -> None:
    vocabulary = checkpoints.read(locate(name)).vocabulary
    queries = subject.queries(name, False, most)
    assert len(set(queries)) == most
    lengths = [len(vocabulary.encode(query)) for query in queries]
    assert sum(lengths) > mean * most
    assert subject.queries(name, False, most + 3) == [*queries, *queries[:3]]
    few = subject.queries(name, False, 32)
    assert few == queries[:: most // 32]


@pytest.mark.parametrize(
    ("spans", "total"), [([], 0), ([(5, 9), (1, 3)], 6), ([(1, 9), (2, 4), (8, 12)], 11)]
)
def test_overlapping_kernels_keep_the_device_busy_once(
    spans: list[tuple[int, int]], total: int
) -> None:
    assert clock.covered(spans) == total


def test_every_case_has_a_row_whether_timed_or_not() -> None:
    place = Place("cpu", few=True)
    case = ("product", real.TREE, 1)
    unfit = ("product", {"drafter": "unknown"}, 1)
    alone, canonical, failed = real.cases(place, "float32", [case, unfit])
    assert alone["rdkit"] == "checks queries"
    assert canonical["rdkit"] == "canonical queries and answers"
    for row in (alone, canonical):
        assert row["tokens_in"] == 9
        assert 0 < row["tokens_out"] <= 5
        assert row["milliseconds_a_query"] > 0
    assert not failed["ok"]
    (late,) = real.cases(place, "float32", [case], seconds=-1)
    assert "left_out" in late
    assert "milliseconds_a_query" not in late
