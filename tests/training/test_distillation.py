"""Distilled data: a model's answers as targets; an interrupted run resumes."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from molspec import checkpoints
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import Prediction, Result
from molspec.text import Vocabulary
from molspec.training import prepared
from molspec.training.distillation import distil
from molspec.training.prepared import EncodedPairs, Prepared
from tests import refused, tiny
from tests.conftest import Run
from tests.training.tiny import answers, write_teacher

COUNTS = {"reactions": 2, "pairs": 2}


def data_of(table: EncodedPairs, validation: EncodedPairs) -> Prepared:
    """Prepared pairs of the task retro."""
    files: dict[str, Any] = {"task": "retro", "files": [], "validation_files": []}
    description = {**files, "train": COUNTS, "validation": COUNTS}
    return Prepared(tiny.VOCABULARY, table, validation, description)


@dataclass
class Teacher:
    """A model that answers a source as `answer` says; with None, it does not."""

    answer: Callable[[str], str | None]
    fingerprint: str = "1"
    vocabulary: Vocabulary = tiny.VOCABULARY
    finished: bool = True
    task: str | None = None
    aligned: bool = False

    @property
    def context(self) -> SimpleNamespace:
        return SimpleNamespace(model=self.fingerprint)

    def predict_stream(self, texts: Iterable[str], options: PredictOptions) -> Iterator[Result]:
        assert options == PredictOptions(canonical_queries=False)
        for text in texts:
            answer = self.answer(text)
            found = () if answer is None else (Prediction(answer, 0.0, finished=self.finished),)
            yield Result(text, found)


def teacher(answer: str, fingerprint: str = "1", **fields: Any) -> Any:
    return Teacher(lambda _: answer, fingerprint, **fields)


def test_interrupted_distillation_resumes(tmp_path: Path) -> None:
    table = answers()
    data, total = data_of(table, table.spread(2)), len(table) + 2
    queries: list[str] = []

    def reverse(text: str) -> str | None:
        if len(queries) == 4 and not stopped:
            raise KeyboardInterrupt
        queries.append(text)
        return None if text == "N" else text[::-1]

    def run(**fields: Any) -> Prepared:
        return distil(data, Teacher(reverse, **fields), "reverse", tmp_path, 10**6)  # type: ignore[arg-type]

    stopped = False
    with pytest.raises(KeyboardInterrupt):
        run()
    assert not (tmp_path / "prepared.json").exists()
    stopped = True
    distilled = run()
    assert len(queries) == total  # no query is repeated
    assert len(distilled.train) == len(table) - 1
    assert distilled.train.pairs()[0][1] == table.pairs()[0][0][::-1]
    assert distilled.description["train"] == COUNTS | distilled.train.counts()
    longest = max(len(source) for source, _ in distilled.train.pairs())
    assert distilled.train.counts()["longest_target"] == longest
    read = prepared.read(tmp_path)
    assert read.fingerprint == distilled.fingerprint
    assert read.description["teacher"] == "reverse, 1"
    refused("teacher is '2', but", run, fingerprint="2")
    extended = replace(tiny.VOCABULARY, tokens=(*tiny.VOCABULARY.tokens, "Xx"))
    refused("reverse has another vocabulary than the data", run, vocabulary=extended)
    refused("reverse is a model of the task 'product'", run, task="product")


def test_answers_that_make_a_validation_pair_are_left_out(tmp_path: Path) -> None:
    """The source may also be trained on with another target, which the model does not predict."""
    encode = tiny.VOCABULARY.encode
    table = EncodedPairs.pack([(encode("CCO"), encode("CC")), (encode("CO"), encode("CC"))])
    validation = EncodedPairs.pack([(encode("CCO"), encode("OCC"))])
    data = data_of(table, validation)
    for name, answer in (("recorded", "OCC"), ("other", "CN")):
        model = teacher(answer, name)
        folder = tmp_path / name
        distilled = distil(data, model, name, folder, 10)
        others = [(encode("CO"), encode(answer))]
        both = [(encode("CCO"), encode(answer)), *others]
        assert distilled.train.pairs() == (others if name == "recorded" else both)
        assert distilled.validation.pairs() == [(encode("CCO"), encode(answer))]
        assert distilled.description["train"]["pairs"] == len(distilled.train)
        assert distilled.description["train"]["reactions"] == len(distilled.train)
    unfinished = teacher("CN", "cut", finished=False)
    refused("^cut, cut finished 0 of 3", distil, data, unfinished, "cut", tmp_path / "cut", 10)


def test_other_prepared_data_are_never_overwritten(tmp_path: Path) -> None:
    """Data that are the model's answers already are written again, without a journal."""
    table = answers()
    data = data_of(table, table.spread(2))
    model = teacher("CC")
    prepared_folder, first, second = (tmp_path / name for name in ("prepared", "first", "second"))
    prepared_folder.mkdir()
    prepared.write(data, prepared_folder)
    distilled = distil(data, model, "one", first, 10)
    for _ in range(2):
        part = distil(prepared.read(first), model, "one", second, 1)
        assert len(part.train) == 1
        assert prepared.read(second).description["train"] == {"reactions": 1} | part.train.counts()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for source, pairs, output in (
        (data, 10, prepared_folder),
        (data, 10, second),
        (distilled, 10, second),
        (distilled, 1, first),
        (distilled, 1, prepared_folder),
    ):
        message = f"output is {output}: it has other prepared data"
        refused(message, distil, source, model, "one", output, pairs)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_train_reads_the_output_of_the_command(data: Path, tmp_path: Path, run: Run) -> None:
    write_teacher(data, tmp_path / "teacher")
    out = tmp_path / "distilled"
    command = f"distil {tmp_path / 'teacher'} --data {data} --output"
    assert run(f"{command} {out} --pairs 6") == 0
    assert 0 < len(prepared.read(out).train) <= 6
    assert run(f"{command} {out} --pairs 5") == 2  # the folder has 6 pairs
    assert run(f"distil product --data {data} --output {tmp_path / 'none'}") == 2
    assert run(f"train --data {out} --output {tmp_path / 'run'} --steps 1") == 0


@pytest.mark.parametrize("command", ["distil", "train-heads", "train-drafter"])
def test_inputs_are_not_overwritten(data: Path, tmp_path: Path, run: Run, command: str) -> None:
    """Neither data nor model is overwritten, even if the output is a hard link to its file."""
    model, own_data, linked = (tmp_path / name for name in ("model", "data", "linked"))
    shutil.copytree(data, own_data)
    checkpoints.write(tiny.checkpoint(), model)
    linked.mkdir()
    os.link(own_data / "prepared.json", linked / "prepared.json")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    inside, reads = f"MODEL {model}: expected another", "it reads as --data"
    cases = [(own_data, model, inside), (own_data, model / "new", inside)]
    if command == "distil":
        cases += [(own_data, own_data, reads), (own_data, linked, reads)]
    else:
        cases += [(own_data, tmp_path, reads), (data, tmp_path, "it reads as MODEL")]
    for read, output, message in cases:
        assert run(f"{command} {model} --data {read} --output {output}") == 2
        assert message in run.err
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
