"""Evaluations of a real model: counts of single queries and of the whole table."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from molspec.decoding import QueryStatistics
from molspec.evaluation import Evaluation, PairTable, Settings, report
from molspec.prediction.options import PredictOptions
from tests import tiny
from tests.evaluation.fake import write_table

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


def test_failed_query_has_no_counts() -> None:
    (result,) = tiny.model().predict(["not SMILES"])
    assert result.statistics == QueryStatistics()


def test_batch_size_changes_only_times(tmp_path: Path) -> None:
    answers = tiny.model().predict(tiny.QUERIES, n_best=3, max_length=20)
    rows = [
        (result.query, result.predictions[index % 3].smiles) for index, result in enumerate(answers)
    ]
    table = PairTable(write_table(tmp_path / "a.tsv", [*rows, ("C(", "C")]))
    summaries = []
    for batch_size in (1, 4):
        options = PredictOptions(n_best=3, max_length=20, batch_size=batch_size)
        evaluation = Evaluation(Settings(table, "tiny", tiny.model().decode_config(options)))
        records = list(evaluation.run(tiny.model()))
        assert [record.found_at for record in records[:-1]] == [
            None
            if record.target_canonical is None
            else [answer.canonical for answer in record.predictions].index(record.target_canonical)
            for record in records[:-1]
        ]
        values = evaluation.summary.to_json()
        summaries.append({name: value for name, value in values.items() if "second" not in name})
    assert summaries[0] == summaries[1]
    assert summaries[0]["failed"] == 1


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
    with pytest.raises(ValueError, match=r"^run was called before"):
        evaluation.run(tiny.model())
