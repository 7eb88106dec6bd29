"""Distilled data: a model's answers as targets; what is stopped goes on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import molspec
from molspec import checkpoints
from molspec.checkpoints import Checkpoint
from molspec.options import PredictOptions
from molspec.provenance import Identity
from molspec.results import Prediction, Result
from molspec.text import Vocabulary, canonicalise
from molspec.training import prepared
from molspec.training.distillation import distil
from molspec.training.prepared import PairTable, Prepared
from molspec.training.reactions import read_rows
from molspec.training.sample import FILE
from tests import tiny
from tests.engine.models import random_weights
from tests.training.test_heads import answers

Captured = pytest.CaptureFixture[str]


def test_answers_go_on_where_they_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = answers()
    described = {"task": "retro", "files": [], "validation_files": [], "train": {}}
    data = Prepared(tiny.VOCABULARY, table, table.spread(2), {**described, "validation": {}})
    total = len(table) + 2
    asked: list[str] = []

    @dataclass
    class Reverse:
        """Answers with the source's reverse, or not at all."""

        identity: Identity
        vocabulary: Vocabulary

        def predict_stream(self, texts: Iterable[str], options: PredictOptions) -> Iterator[Result]:
            assert options == PredictOptions(canonical_queries=False)
            for text in texts:
                asked.append(text)
                yield Result(text, () if text == "N" else (Prediction(text[::-1], 0.0),))

    def all_of(
        texts: Iterator[str | None], unit: str, count: int, done: int
    ) -> Iterator[str | None]:
        assert (unit, count, done) == ("answers", total, len(asked))
        return texts

    def four(texts: Iterator[str | None], *_: object) -> Iterator[str | None]:
        return islice(texts, 4)

    def ask(counted: Callable[..., Any], **other: Any) -> Prepared:
        monkeypatch.setattr("molspec.training.distillation.counted", counted)
        model: Any = Reverse(**{"identity": Identity("1"), "vocabulary": tiny.VOCABULARY, **other})
        return distil(data, model, "reverse", tmp_path, 10**6)

    with pytest.raises(ValueError, match="zip"):
        ask(four)
    assert not (tmp_path / "prepared.json").exists()
    found = ask(all_of)
    assert len(asked) == total  # none twice
    assert len(found.train) == len(table) - 1
    assert found.train.pairs()[0][1] == table.pairs()[0][0][::-1]
    read = prepared.read(tmp_path)
    assert read.fingerprint == found.fingerprint
    assert read.description["teacher"] == "reverse, 1"
    with pytest.raises(ValueError, match="teacher is '2', but"):
        ask(all_of, identity=Identity("2"))
    other = replace(tiny.VOCABULARY, tokens=(*tiny.VOCABULARY.tokens, "Xx"))
    with pytest.raises(ValueError, match="reverse has another vocabulary than the data"):
        ask(all_of, vocabulary=other)


def test_an_answer_that_makes_a_validation_pair_is_not_trained_on(tmp_path: Path) -> None:
    """The same source may be there with another product, which the model does not expect."""
    described = {"task": "retro", "files": [], "validation_files": [], "train": {}}
    encode = tiny.VOCABULARY.encode
    table = PairTable.pack([(encode("CCO"), encode("CC")), (encode("CO"), encode("CC"))])
    judged = PairTable.pack([(encode("CCO"), encode("OCC"))])
    data = Prepared(tiny.VOCABULARY, table, judged, {**described, "validation": {}})
    for name, answer in (("recorded", "OCC"), ("other", "CN")):
        model: Any = Constant(Identity(name), tiny.VOCABULARY, answer)
        folder = tmp_path / name
        made = distil(data, model, name, folder, 10)
        others = [(encode("CO"), encode(answer))]
        both = [(encode("CCO"), encode(answer)), *others]
        assert made.train.pairs() == (others if name == "recorded" else both)
        assert made.validation.pairs() == [(encode("CCO"), encode(answer))]
        assert made.description["train"]["pairs"] == len(made.train)


@dataclass
class Constant:
    """Has one answer."""

    identity: Identity
    vocabulary: Vocabulary
    answer: str

    def predict_stream(self, texts: Iterable[str], options: PredictOptions) -> Iterator[Result]:
        return (Result(text, (Prediction(self.answer, 0.0),)) for text in texts)


def test_the_command_writes_what_train_reads(
    data: Path, tmp_path: Path, run: Callable[..., int]
) -> None:
    vocabulary = prepared.read(data).vocabulary
    spec = replace(tiny.SPEC, source_vocab_size=vocabulary.size, target_vocab_size=vocabulary.size)
    checkpoint = Checkpoint(spec, random_weights(spec, 1), vocabulary, task="retro")
    checkpoints.write(checkpoint, tmp_path / "teacher")
    out = tmp_path / "distilled"
    arguments = ["distil", str(tmp_path / "teacher"), "--data", str(data), "--output", str(out)]
    assert run(*arguments, "--pairs", "6") == 0
    made = prepared.read(out)
    assert 0 < len(made.train) <= 6
    assert run(*arguments, "--pairs", "5") == 2  # holds others
    assert run("distil", "product", *arguments[2:4], "--output", str(tmp_path / "none")) == 2
    assert run("train", "--data", str(out), "--output", str(tmp_path / "run"), "--steps", "1") == 0


@pytest.mark.parametrize("command", ["distil", "train-heads", "train-drafter"])
def test_nothing_is_written_over_what_is_read(
    data: Path, tmp_path: Path, run: Callable[..., int], capsys: Captured, command: str
) -> None:
    """Not data, nor a model where its successor would be, under another name of the file either."""
    model, mine = tmp_path / "model", tmp_path / "data"
    shutil.copytree(data, mine)
    checkpoints.write(tiny.checkpoint(), model)
    there = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    linked = tmp_path / "linked"
    linked.mkdir()
    os.link(mine / "prepared.json", linked / "prepared.json")
    cases = (
        [("--data", mine, mine), ("--data", mine, linked)]
        if command == "distil"
        else [("--data", mine, tmp_path), ("MODEL", data, tmp_path)]
    )
    for name, given, output in cases:
        assert run(command, str(model), "--data", str(given), "--output", str(output)) == 2
        assert f", which it reads as {name} " in capsys.readouterr().err
    assert there == {path: path.read_bytes() for path in there}


def test_answers_of_several_views_are_spelt_for_the_source(
    tmp_path: Path, run: Callable[..., int]
) -> None:
    model = molspec.load("retro")
    rows = (row.reaction.split(">")[2] for row in islice(read_rows(FILE), 80))
    products = [found for row in rows if (found := canonicalise(row)) is not None]
    one, five = (model.predict(products, augmentations=count) for count in (1, 5))
    differ = {
        product: own.predictions[0].canonical != voted.predictions[0].canonical
        for product, own, voted in zip(products, one, five, strict=True)
    }
    texts = sorted(differ, key=lambda product: not differ[product])[:3] + products[:3]
    table = PairTable.pack([(model.vocabulary.encode(text), [3]) for text in texts])
    described = {"task": "retro", "files": [], "validation_files": [], "train": {}}
    data = Prepared(model.vocabulary, table, table.spread(1), {**described, "validation": {}})
    (tmp_path / "data").mkdir()
    prepared.write(data, tmp_path / "data")
    out = tmp_path / "out"
    given = ["--data", str(tmp_path / "data"), "--output", str(out)]
    assert run("distil", "retro", *given, "--augmentations", "5") == 0
    made = prepared.read(out)
    assert made.description["teacher"].endswith(" in 5 spellings")
    answers = [model.vocabulary.decode(ids) for _, ids in made.train.pairs()]
    voted = [result.predictions[0].canonical for result in model.predict(texts, augmentations=5)]
    assert [canonicalise(answer) for answer in answers] == voted
    own = model.predict(texts, canonical_queries=False)
    changed = [
        (text, answer, molecule)
        for text, answer, molecule, one in zip(texts, answers, voted, own, strict=True)
        if molecule is not None and one.predictions[0].canonical != molecule
    ]
    assert 0 < len(changed) < len(texts)
    for text, answer, molecule in changed:
        likely, canonical = model.log_probs([text] * 2, [answer, molecule], canonical_queries=False)
        assert likely.predictions[0].log_prob > canonical.predictions[0].log_prob
    assert run("distil", "retro", *given) == 2  # answers of one view are others
