"""A model on several processes gives the answers and counts of one, even if workers die."""

import os
import random
import signal
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

import molspec
from molspec import Model, PredictOptions, Statistics
from molspec.common import workers

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


def _worker_ids() -> list[int]:
    """Ids of the workers: the processes whose parent's parent is this process."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rpartition(")")[2].split()[1]
            )
        except OSError:
            continue
    return [process for process, parent in parents.items() if parents.get(parent) == os.getpid()]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers by /proc")
def test_killed_workers_neither_lose_nor_repeat_answers(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_ATTEMPTS", 21)  # by chance an item may be in three kills
    expected = list(model.predict_stream(QUERIES))
    chance, kills = random.Random(1), 0
    found = []
    for result in model.predict_stream(QUERIES * 4, processes=2):
        found.append(result)
        if kills < 20 and chance.random() < 0.15 and (alive := _worker_ids()):
            with suppress(ProcessLookupError):  # it ended before the kill
                os.kill(chance.choice(alive), signal.SIGKILL)
                kills += 1
    assert kills >= 10
    assert found == expected * 4
