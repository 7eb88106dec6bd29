from __future__ import annotations

import json

import pytest

from molspec.evaluation import Evaluation, PairTable, Settings, Summary, report
from molspec.prediction.options import PredictOptions
from tests import tiny
from tests.evaluation.fake import FakeModel, predictions, write_table

ROWS = [
    ("CC", "CCO"),
    ("CCC", "CCN"),
    ("CCCC", "not a molecule"),
    ("X", "CC"),
    ("CCCCC", "C"),
]
MODEL = FakeModel(
    {
        "CC": predictions("OCC", "C(", "CCO"),
        "CCC": predictions("CC(", "~CCN", "NCC"),
        "CCCC": predictions("C", "C", "C"),
        "CCCCC": predictions("N", "O"),
    }
)


@pytest.fixture
def evaluation(tmp_path: object) -> Evaluation:
    table = PairTable(write_table(tmp_path / "a.tsv", ROWS))  # type: ignore[operator]
    settings = Settings(table, "fake", tiny.config(PredictOptions(n_best=3)))
    evaluation = Evaluation(settings)
    assert len(list(evaluation.run(MODEL))) == len(ROWS)  # type: ignore[arg-type]
    return evaluation


def test_summary_counts_queries_and_accuracies(evaluation: Evaluation) -> None:
    summary = evaluation.summary
    assert (summary.queries, summary.failed, summary.excluded) == (5, 1, 1)
    # Of four valid targets, one is found at rank 1 and one at rank 3; a failed query finds none.
    assert [summary.accuracy(rank) for rank in (1, 2, 3)] == [0.25, 0.25, 0.5]
    assert summary.accuracies == {1: 0.25, 3: 0.5}


def test_faulty_answers_are_shares_of_the_answers_at_a_rank(evaluation: Evaluation) -> None:
    first, second, third = evaluation.summary.to_json()["ranks"]
    assert first == {
        "rank": 1,
        "accuracy": 0.25,
        "interval": evaluation.summary.interval(1),
        "predictions": 4,
        "invalid": 0.25,
        "duplicate": 0.0,
        "unfinished": 0.0,
    }
    assert second == {
        "rank": 2,
        "accuracy": 0.25,
        "interval": evaluation.summary.interval(2),
        "predictions": 4,
        "invalid": 0.25,
        "duplicate": 0.25,
        "unfinished": 0.25,
    }
    assert third == {
        "rank": 3,
        "accuracy": 0.5,
        "interval": evaluation.summary.interval(3),
        "predictions": 3,
        "invalid": 0.0,
        "duplicate": 2 / 3,
        "unfinished": 0.0,
    }


def test_costs_are_means_of_answered_queries(evaluation: Evaluation) -> None:
    assert evaluation.summary.costs() == {
        "decoder_calls_per_query": (2 + 3 + 4 + 5) / 4,
        "nodes_per_query": 4 * (2 + 3 + 4 + 5) / 4,
        "nodes_per_call": 4.0,
        "accepted_per_emitted": 2.0,
        "accepted_per_drafted": 2 / 3,
    }
    times = evaluation.summary.times()
    assert times["median_query_seconds"] == 0.25
    assert times["seconds_per_query"] == times["seconds"] / 5  # type: ignore[operator]


def test_accuracies_are_given_for_ranks_up_to_n_best() -> None:
    assert list(Summary(1).accuracies) == [1]
    assert list(Summary(12).accuracies) == [1, 3, 5, 10]
    assert list(Summary(30).accuracies) == [1, 3, 5, 10, 25]


def test_empty_summary_has_no_shares(evaluation: Evaluation) -> None:
    summary = Summary(2)
    assert summary.accuracies == {1: None}
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
