import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from molspec.evaluation import Evaluation, PairTable, Record, Settings, report
from molspec.prediction.options import PredictOptions
from tests import refused, tiny
from tests.evaluation.fake import FakeModel, predictions, write_table

ROWS = [("CO", "OC"), ("CN", "CN"), ("X", "C"), ("CCO", "C("), ("CC", "CCC"), ("CCC", "CC")]
ANSWERS = {
    "CO": predictions("CO", "OC"),
    "CN": predictions("C(", "NC"),
    "CCO": predictions("C", "N"),
    "CC": predictions("~CC", "CCC"),
    "CCC": predictions("CC"),
}


def settings(folder: Path, **options: Any) -> Settings:
    table = PairTable(write_table(folder / "table.tsv", ROWS))
    offset = options.pop("offset", 0)
    device, weights = options.pop("device", "cpu"), options.pop("weights", "f00d")
    predict_options = PredictOptions(n_best=2, **options)
    return Settings(table, "fake", tiny.config(predict_options, weights, device), offset)


def run(evaluation: Evaluation) -> list[str]:
    """Evaluates the remaining queries and returns those that the model received."""
    model = FakeModel(ANSWERS)
    list(evaluation.run(model))  # type: ignore[arg-type]
    return model.received


def without_times(file: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines[1:]:
        assert line.pop("seconds") >= 0
    return lines


def summary(evaluation: Evaluation) -> dict[str, Any]:
    values = evaluation.summary.to_json()
    assert values.pop("seconds") >= values.pop("seconds_per_query") >= 0
    return values


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    file = tmp_path / "whole.jsonl"
    assert run(Evaluation(settings(tmp_path), file)) == [query for query, _ in ROWS]
    return file


def test_file_has_the_settings_and_one_line_per_query(finished: Path, tmp_path: Path) -> None:
    header, *lines = finished.read_text().splitlines()
    assert json.loads(header) == settings(tmp_path).to_json()
    records = [Record.from_json(json.loads(line)) for line in lines]
    assert [(record.query, record.target) for record in records] == ROWS
    assert [record.found_at for record in records] == [0, 1, None, None, 1, 0]


def test_rows_of_one_reaction_are_repeats_whatever_their_spelling(tmp_path: Path) -> None:
    rows = [("CO", "CN"), ("OC", "NC"), ("CO", "C("), ("OC", "C("), ("CO", "C)")]
    evaluation = Evaluation(
        replace(settings(tmp_path), table=PairTable(write_table(tmp_path / "again.tsv", rows)))
    )
    run(evaluation)
    assert evaluation.repeats == 2  # two texts that are not molecules are two


def test_a_run_that_was_left_resumes_to_the_same_bytes(finished: Path, tmp_path: Path) -> None:
    file = tmp_path / "left.jsonl"
    records = Evaluation(settings(tmp_path), file).run(FakeModel(ANSWERS))  # type: ignore[arg-type]
    next(records)
    records.close()  # type: ignore[attr-defined]
    for limit, done in ((4, 1), (6, 4)):
        evaluation = Evaluation(settings(tmp_path), file, limit)
        assert evaluation.summary.queries == done
        assert run(evaluation) == [query for query, _ in ROWS[done:limit]]
        assert evaluation.summary.queries == limit
    assert without_times(file) == without_times(finished)
    expected = Evaluation(settings(tmp_path), finished)
    assert summary(evaluation) == summary(expected)
    fewer = Evaluation(settings(tmp_path), file, limit=2)
    assert (run(fewer), fewer.summary.queries) == ([], 2)
    plain = Evaluation(settings(tmp_path))
    run(plain)
    assert summary(plain) == summary(expected)


def test_offset_and_limit_select_queries(tmp_path: Path) -> None:
    assert run(Evaluation(settings(tmp_path, offset=2), limit=2)) == ["X", "CCO"]
    assert run(Evaluation(settings(tmp_path, offset=5), limit=9)) == ["CCC"]
    assert run(Evaluation(settings(tmp_path, offset=6))) == []
    for offset, limit, told in ((-1, 1, "offset is -1"), (0, 0, "limit is 0"), (0, -1, "limit")):
        refused(told, Evaluation, settings(tmp_path, offset=offset), limit=limit)


OTHER = {
    "batch_size is 3": {"batch_size": 3},
    "beam is 'standard'": {"beam": "standard"},
    "drafter is .*'node_budget': 3": {"node_budget": 3},
    "offset is 1": {"offset": 1},
    "device is 'cuda'": {"device": "cuda"},
    "weights is 'beef'": {"weights": "beef"},
}


def test_other_settings_and_tables_are_refused(finished: Path, tmp_path: Path) -> None:
    before, original = finished.read_bytes(), settings(tmp_path)
    for message, changed in OTHER.items():
        refused(message, Evaluation, settings(tmp_path, **changed), finished)
    assert run(Evaluation(replace(original, model="./fake"), finished)) == []  # same weights
    write_table(tmp_path / "table.tsv", [*ROWS[:3], ("CCO", "CCC"), *ROWS[4:]])
    refused("another table: it has 'CCO' where", Evaluation, original, finished)
    assert finished.read_bytes() == before


def test_groups_are_counted_separately_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "classes.tsv"
    classes = ("10", "2", "2", "x", "10", "2")
    rows = (f"{a}\t{b}\t{name}\n" for (a, b), name in zip(ROWS, classes, strict=True))
    path.write_text("query\ttarget\tclass\n" + "".join(rows))
    group_settings = Settings(
        PairTable(path, group_column="class"), "fake", tiny.config(PredictOptions(n_best=2))
    )
    first = Evaluation(group_settings, tmp_path / "out.jsonl")
    run(first)
    for evaluation in (first, Evaluation(group_settings, tmp_path / "out.jsonl")):
        counts = {name: part.queries for name, part in evaluation.groups.items()}
        assert counts == {"10": 2, "2": 3, "x": 1}
        found = {name: part.accuracy(2) for name, part in evaluation.groups.items()}
        assert found == {"10": 1.0, "2": 2 / 3, "x": None}
    lines = report(group_settings.to_json(), first.summary, first.groups).splitlines()
    begin = lines.index("class   queries    top-1")
    assert [line.split()[0] for line in lines[begin + 1 : begin + 4]] == ["2", "10", "x"]
    assert lines[begin + 1].split() == ["2", "3", "33.3", "%"]
