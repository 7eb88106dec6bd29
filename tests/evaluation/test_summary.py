"""Summaries of evaluations: accuracies, costs, and counts of a real model in any batch."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from molspec.decoding import QueryStatistics
from molspec.evaluation import Evaluation, PairTable, Settings, Summary, report
from molspec.prediction.options import PredictOptions
from tests import refused, tiny
from tests.evaluation.fake import FakeModel, predictions, write_table

ROWS = [("CC", "CCO"), ("CCC", "CCN"), ("CCCC", "not a molecule"), ("X", "CC"), ("CCCCC", "C")]
MODEL = FakeModel(
    {
        "CC": predictions("OCC", "C(", "CCO"),
        "CCC": predictions("CC(", "~CCN", "NCC"),
        "CCCC": predictions("C", "C", "C"),
        "CCCCC": predictions("N", "O"),
    }
)


@pytest.fixture
def evaluation(tmp_path: Path) -> Evaluation:
    table = PairTable(write_table(tmp_path / "a.tsv", ROWS))
    settings = Settings(table, "fake", tiny.config(PredictOptions(n_best=3)))
    evaluation = Evaluation(settings)
    assert len(list(evaluation.run(MODEL))) == len(ROWS)  # type: ignore[arg-type]
    return evaluation


def test_answers_and_faults_are_counted_by_rank(evaluation: Evaluation) -> None:
    """Of four valid targets, one is found at rank 1, one at rank 3; a failed query finds none."""
    summary = evaluation.summary
    assert (summary.queries, summary.failed, summary.excluded) == (5, 1, 1)
    assert [*summary.errors.values()] == [1]
    assert summary.accuracies == {1: 0.25, 3: 0.5}
    ranks = summary.to_json()["ranks"]
    assert [e["interval"] for e in ranks] == [summary.interval(n) for n in (1, 2, 3)]
    names = ("rank", "accuracy", "predictions", "invalid", "duplicate", "unfinished")
    assert [tuple(each[name] for name in names) for each in ranks] == [
        (1, 0.25, 4, 0.25, 0.0, 0.0),
        (2, 0.25, 4, 0.25, 0.25, 0.25),
        (3, 0.5, 3, 0.0, 2 / 3, 0.0),
    ]
    assert all(each.keys() == {*names, "interval"} for each in ranks)


def test_empty_summary_has_no_shares(evaluation: Evaluation) -> None:
    for n_best, ranks in ((1, [1]), (12, [1, 3, 5, 10]), (30, [1, 3, 5, 10, 25])):
        assert Summary(n_best).accuracies == dict.fromkeys(ranks)
    summary = Summary(2)
    assert set(summary.costs().values()) == {None}
    json.dumps(summary.to_json(), allow_nan=False)
    assert "rank" in report(evaluation.settings.to_json(), summary)


@pytest.mark.parametrize(
    ("found", "queries", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_interval_is_that_of_wilson(found: int, queries: int, low: float, high: float) -> None:
    """The third case is in Newcombe 1998, table I; the others are 1 / (1 + n / z^2)."""
    summary = Summary(1)
    summary.queries, summary.ranks[0].found = queries, found
    assert summary.interval(1) == pytest.approx((low, high), abs=5e-5)


def test_report_shows_counts_accuracies_and_costs(evaluation: Evaluation) -> None:
    text = report(evaluation.settings.to_json(), evaluation.summary)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert "queries      5; 1 failed; 1 with a target that is not a molecule" in text
    assert (
        "   3             50.0 %    15.0 to 85.0             3     0.0 %      66.7 %        0.0 %"
        in lines
    )
    assert "decoder      3.5 calls a query, 14.0 nodes a query, 4.0 nodes a call" in lines
    assert "the median query was under way for 250.0 ms" in text


# The default greedy drafter drafts fewer nodes in a larger batch, so the budget is given.
BEAMS: list[dict[str, Any]] = [{"node_budget": 5}, {"n_best": 3}, {"n_best": 3, "beam": "sbs"}]


@pytest.mark.parametrize("options", BEAMS)
def test_counts_of_a_query_do_not_depend_on_the_batch(options: dict[str, Any]) -> None:
    """Counts of queries add up, and are the same one by one and in a batch."""
    model = tiny.model()
    single = model.predict(tiny.QUERIES, max_length=20, batch_size=1, **options)
    batched = model.predict(tiny.QUERIES, max_length=20, batch_size=4, **options)
    assert single == batched
    for name in (field.name for field in fields(QueryStatistics) if field.name != "seconds"):
        counts = [getattr(result.statistics, name) for result in single]
        assert counts == [getattr(result.statistics, name) for result in batched]
        total = "query_calls" if name == "decoder_calls" else name
        assert sum(counts) == getattr(single.statistics, total)
    assert all(result.statistics.seconds > 0 for result in single)
    (failed,) = model.predict(["not SMILES"])
    assert failed.statistics == QueryStatistics()


def test_samples_are_ranked_as_they_are_drawn(tmp_path: Path) -> None:
    """A target may be found at any rank, and the report names the options of the samples."""
    options = PredictOptions(samples=6, temperature=4, seed=2, max_length=12)
    table = PairTable(write_table(tmp_path / "a.tsv", [("CCO", "O")]))
    settings = Settings(table, "tiny", tiny.model().decode_config(options))
    evaluation = Evaluation(settings)
    (record,) = evaluation.run(tiny.model())
    assert record.found_at == 3
    assert len(evaluation.summary.ranks) == 6
    shown = report(settings.to_json(), evaluation.summary)
    assert "with         samples 6, temperature 4.0, seed 2" in shown
    refused(r"^run was called before", evaluation.run, tiny.model())
