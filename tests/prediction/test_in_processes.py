"""A model on several processes gives the answers and counts of one, even if workers die."""

import os
import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import molspec
from molspec import Model, PredictOptions, Statistics
from molspec.prediction.queries import QueryReader

QUERIES = [f"{'C' * (1 + each % 9)}(=O)O.{'C' * (1 + each % 4)}O" for each in range(60)]
QUERIES[7], QUERIES[23] = "no SMILES", "[Uuo]"


@pytest.fixture(scope="module")
def model() -> Model:
    return molspec.load("product", dtype="int8")


def test_answers_and_counts_equal_those_of_one_process(model: Model) -> None:
    options = PredictOptions(3, augmentations=3, augment_below=0.5)
    counts = [Statistics(), Statistics()]
    expected = list(model.predict_stream(QUERIES, options, counts[0]))
    found = list(model.predict_stream(iter(QUERIES), options, counts[1], processes=2))
    assert found == expected
    assert counts[0].nodes == counts[1].nodes
    assert counts[0].queries == counts[1].queries
    assert [r.statistics.nodes for r in expected] == [r.statistics.nodes for r in found]


def test_seconds_of_all_processes_are_summed(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr("molspec.decoding.statistics.perf_counter", lambda: float(next(ticks)))
    statistics = Statistics()
    options = PredictOptions(batch_size=1)
    list(model.predict_stream(["CCO"] * 40, options, statistics, processes=2))
    assert statistics.seconds["text"] >= 40


def test_scores_of_targets_equal_those_of_one_process(model: Model) -> None:
    pairs = [(query, "CCOC(C)=O") for query in QUERIES]
    expected = list(model.log_probs_stream(pairs))
    assert list(model.log_probs_stream(pairs, processes=2)) == expected


def test_killed_workers_neither_lose_nor_repeat_answers(
    model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected, views = list(model.predict_stream(QUERIES)), QueryReader.views

    def mortal(reader: QueryReader, query: str, *others: Any) -> Any:
        """Kills its process at every fifth query, once."""
        place = QUERIES.index(query)
        if place % 5 == 0 and not (tmp_path / f"{place}").exists():
            (tmp_path / f"{place}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return views(reader, query, *others)

    monkeypatch.setattr(QueryReader, "views", mortal)
    assert list(model.predict_stream(QUERIES, processes=2)) == expected
    assert len([*tmp_path.iterdir()]) > 6
