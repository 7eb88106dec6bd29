from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from molspec.evaluation import Evaluation, PairTable, Record, Settings, report
from molspec.options import PredictOptions
from molspec.provenance import Identity
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
    asked = PredictOptions(n_best=2, **options)
    return Settings(table, "fake", Identity(weights, device), asked, offset)


def run(evaluation: Evaluation) -> list[str]:
    """Work off the rest; gives what the model was asked."""
    model = FakeModel(ANSWERS)
    list(evaluation.run(model))  # type: ignore[arg-type]
    return model.asked


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
def whole(tmp_path: Path) -> Path:
    file = tmp_path / "whole.jsonl"
    assert run(Evaluation(settings(tmp_path), file)) == [query for query, _ in ROWS]
    return file


def test_a_line_a_query_behind_the_settings(whole: Path, tmp_path: Path) -> None:
    header, *lines = whole.read_text().splitlines()
    assert json.loads(header) == settings(tmp_path).to_json()
    records = [Record.from_json(json.loads(line)) for line in lines]
    assert [(record.query, record.target) for record in records] == ROWS
    assert [record.found_at for record in records] == [0, 1, None, None, 1, 0]


def test_the_settings_say_what_was_decoded_with(tmp_path: Path) -> None:
    values = settings(tmp_path, offset=1, node_budget=7).to_json()
    assert (values["model"], values["dtype"], values["offset"]) == ("fake", "float32", 1)
    assert (values["beam"], values["n_best"], values["beam_size"]) == ("exact", 2, 2)
    assert values["drafter"]["kind"] == "LookAhead"
    assert values["drafter"]["node_budget"] == 7
    table = PairTable(tmp_path / "table.tsv")
    greedy = Settings(table, "fake", Identity("f00d"), PredictOptions(drafter="none")).to_json()
    assert (greedy["beam"], greedy["drafter"]) == ("greedy", {"kind": "NoDraft"})


def test_a_killed_run_goes_on_wherever_it_was_cut(whole: Path, tmp_path: Path) -> None:
    expected = without_times(whole)
    expected_summary = summary(Evaluation(settings(tmp_path), whole))
    content = whole.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")]
    cuts = {0, 1, *range(0, len(content), 29), *ends, *(end - 1 for end in ends)}
    for cut in sorted(cuts):
        file = tmp_path / "cut.jsonl"
        file.write_bytes(content[:cut])
        evaluation = Evaluation(settings(tmp_path), file)
        done = max(content[:cut].count(b"\n") - 1, 0)
        assert evaluation.summary.queries == done
        assert run(evaluation) == [query for query, _ in ROWS[done:]]
        assert without_times(file) == expected
        assert summary(evaluation) == expected_summary


def test_an_iteration_that_is_left_can_be_gone_on_with(whole: Path, tmp_path: Path) -> None:
    file = tmp_path / "left.jsonl"
    records = Evaluation(settings(tmp_path), file).run(FakeModel(ANSWERS))  # type: ignore[arg-type]
    next(records)
    records.close()  # type: ignore[attr-defined]
    assert run(Evaluation(settings(tmp_path), file))[0] == "CN"
    assert without_times(file) == without_times(whole)


def test_without_a_file_the_summary_is_the_same(whole: Path, tmp_path: Path) -> None:
    evaluation = Evaluation(settings(tmp_path))
    run(evaluation)
    assert summary(evaluation) == summary(Evaluation(settings(tmp_path), whole))


def test_offset_and_limit(whole: Path, tmp_path: Path) -> None:
    assert run(Evaluation(settings(tmp_path, offset=2), limit=2)) == ["X", "CCO"]
    assert run(Evaluation(settings(tmp_path, offset=5), limit=9)) == ["CCC"]
    assert run(Evaluation(settings(tmp_path, offset=6))) == []


def test_limit_is_only_how_far_to_go(whole: Path, tmp_path: Path) -> None:
    file = tmp_path / "grows.jsonl"
    for limit in (2, 5, 6):
        evaluation = Evaluation(settings(tmp_path), file, limit)
        run(evaluation)
        assert evaluation.summary.queries == limit
    assert without_times(file) == without_times(whole)
    fewer = Evaluation(settings(tmp_path), file, limit=2)
    assert fewer.summary.queries == 2
    assert run(fewer) == []
    assert without_times(file) == without_times(whole)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"batch_size": 3}, "batch_size is 3, but .* holds an evaluation with 32"),
        ({"beam": "standard"}, "beam is 'standard', but .* holds an evaluation with 'exact'"),
        ({"node_budget": 3}, "drafter is .*'node_budget': 3"),
        ({"offset": 1}, "offset is 1"),
        ({"device": "cuda"}, "device is 'cuda'"),
        ({"weights": "beef"}, "weights is 'beef', but .* holds an evaluation with 'f00d'"),
    ],
)
def test_other_settings(whole: Path, tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    before = whole.read_bytes()
    with pytest.raises(ValueError, match=message):
        Evaluation(settings(tmp_path, **changed), whole)
    assert whole.read_bytes() == before


def test_a_model_is_known_by_its_weights_not_its_name(whole: Path, tmp_path: Path) -> None:
    assert run(Evaluation(replace(settings(tmp_path), model="./fake"), whole)) == []


def test_another_table(whole: Path, tmp_path: Path) -> None:
    given = settings(tmp_path)
    write_table(tmp_path / "table.tsv", [*ROWS[:3], ("CCO", "CCC"), *ROWS[4:]])
    with pytest.raises(ValueError, match="another table: it has 'CCO' where"):
        Evaluation(given, whole)


@pytest.mark.parametrize("content", ["CCO\n", "[1]\n", '{"a": 1}\n', "CCO", "\n", "\x00\x00"])
def test_a_file_that_is_something_else_stays(tmp_path: Path, content: str) -> None:
    file = tmp_path / "other"
    file.write_text(content)
    with pytest.raises(ValueError, match="holds something else"):
        Evaluation(settings(tmp_path), file)
    assert file.read_text() == content


def test_a_damaged_line(whole: Path, tmp_path: Path) -> None:
    lines = whole.read_bytes().splitlines(keepends=True)
    for damaged in (b"\x00" * 10 + b"\n", b"{}\n", lines[2].replace(b"seconds", b"s")):
        whole.write_bytes(b"".join([*lines[:2], damaged, *lines[3:]]))
        with pytest.raises(ValueError, match="line 3: no record"):
            Evaluation(settings(tmp_path), whole)


@pytest.mark.parametrize(("offset", "limit"), [(-1, 1), (0, 0), (0, -1)])
def test_a_range_that_makes_no_sense(tmp_path: Path, offset: int, limit: int) -> None:
    given = settings(tmp_path, offset=offset)
    with pytest.raises(ValueError, match=r"(offset is -1|limit is -?[01]): expected at least"):
        Evaluation(given, limit=limit)


def test_groups_are_counted_by_themselves_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "classes.tsv"
    classes = ("10", "2", "2", "x", "10", "2")
    rows = (f"{a}\t{b}\t{name}\n" for (a, b), name in zip(ROWS, classes, strict=True))
    path.write_text("query\ttarget\tclass\n" + "".join(rows))
    given = Settings(
        PairTable(path, group_column="class"), "fake", Identity("f00d"), PredictOptions(n_best=2)
    )
    first = Evaluation(given, tmp_path / "out.jsonl")
    run(first)
    for evaluation in (first, Evaluation(given, tmp_path / "out.jsonl")):
        counts = {name: part.queries for name, part in evaluation.groups.items()}
        assert counts == {"10": 2, "2": 3, "x": 1}
        found = {name: part.accuracy(2) for name, part in evaluation.groups.items()}
        assert found == {"10": 1.0, "2": 2 / 3, "x": None}
    lines = report(given.to_json(), first.summary, first.groups).splitlines()
    begin = lines.index("class   queries    top-1")
    assert [line.split()[0] for line in lines[begin + 1 : begin + 4]] == ["2", "10", "x"]
    assert lines[begin + 1].split() == ["2", "3", "33.3", "%"]
