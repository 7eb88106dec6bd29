"""A model's own drafters in its folder: draft heads and a Spec-Drafter."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from molspec import Model, checkpoints
from molspec.checkpoints import Checkpoint, CheckpointError
from molspec.commands import description
from molspec.drafting import HeadsDraft, SpecDraft
from molspec.model.heads import HeadsWeights
from molspec.model.spec_drafter import SpecDrafterWeights
from molspec.text import Vocabulary
from tests import refused, tiny
from tests.engine.models import random_weights

#: By the place in a model's folder.
WITH = {"heads.safetensors": tiny.with_heads, "spec": lambda: tiny.with_spec_drafter(2)}
OTHER_TOKENS = Vocabulary((*tiny.TOKENS[:6], "S", *tiny.TOKENS[7:]), unk_id=3)


def drafters(checkpoint: Checkpoint) -> HeadsWeights | SpecDrafterWeights:
    found = checkpoint.heads or checkpoint.spec_drafter
    assert found is not None
    return found


@pytest.mark.parametrize("place", WITH)
def test_a_drafter_is_stored_with_its_model(place: str, tmp_path: Path) -> None:
    checkpoint = WITH[place]()
    checkpoints.write(checkpoint, tmp_path / "model")
    stored, written = drafters(checkpoints.read(tmp_path / "model")), drafters(checkpoint)
    assert stored.spec == written.spec
    for name, weight in written.weights.items():
        assert torch.equal(stored.weights[name], weight)
    if isinstance(stored, SpecDrafterWeights):
        assert isinstance(written, SpecDrafterWeights)
        assert stored.k == written.k
        text = description.model(str(tmp_path / "model"))
        assert "a Spec-Drafter of 5 tokens, 1 + 2 layers, width 32" in text


def test_a_fingerprint_is_of_the_drafter_too() -> None:
    variants = [*(made() for made in WITH.values()), tiny.with_spec_drafter(1), tiny.checkpoint()]
    assert len({each.fingerprint() for each in variants}) == 4
    assert len({each.fingerprint(False) for each in variants}) == 1


@pytest.mark.parametrize("place", WITH)
def test_a_drafter_of_another_model_is_refused(place: str, tmp_path: Path) -> None:
    def refused_with(other: Checkpoint, message: str) -> None:
        for path, each in ((tmp_path / "model", checkpoint), (tmp_path / "other", other)):
            shutil.rmtree(path, ignore_errors=True)
            checkpoints.write(each, path)
        own = tmp_path / "model" / place
        shutil.rmtree(own) if own.is_dir() else own.unlink()
        (tmp_path / "other" / place).rename(own)
        refused(CheckpointError, message, checkpoints.read, tmp_path / "model")

    checkpoint = WITH[place]()
    own = {"heads": checkpoint.heads, "spec_drafter": checkpoint.spec_drafter}
    other = replace(tiny.checkpoint(seed=2), **own)
    prints = [each.fingerprint(False) for each in (other, checkpoint)]
    refused_with(other, f"of the model {prints[0]}: expected .*{prints[1]}")
    if place == "spec":
        tokens = "another vocabulary: token 6 is 'S' .*'N'"
        refused_with(replace(checkpoint, vocabulary=OTHER_TOKENS), tokens)


HEADS = "heads.safetensors"


@pytest.mark.parametrize(
    ("place", "part", "content"),
    [
        (HEADS, HEADS, lambda _: b""),
        (HEADS, HEADS, lambda content: content[:100]),
        (HEADS, HEADS, lambda content: content.replace(b"molspec-heads", b"molspec-tails")),
        *(("spec", f"spec/{name}", lambda _: b"") for name in ("model.safetensors", "config.json")),
        *(("spec", "spec/drafter.json", lambda _, text=text: text) for text in (b"{}", b"[")),
    ],
)
def test_a_damaged_drafter_is_refused(tmp_path: Path, place: str, part: str, content: Any) -> None:
    checkpoints.write(WITH[place](), tmp_path / "model")
    file = tmp_path / "model" / part
    file.write_bytes(content(file.read_bytes()))
    refused(CheckpointError, rf"{place} is damaged", checkpoints.read, tmp_path / "model")


def test_a_drafter_that_does_not_fit_is_refused() -> None:
    heads = tiny.with_heads().heads
    assert heads is not None
    incomplete = {name: each for name, each in heads.weights.items() if name != "norm.weight"}
    smaller = replace(tiny.SPEC, source_vocab_size=9, target_vocab_size=9)
    for message, other in (
        (r"missing weights: norm\.weight", {"heads": HeadsWeights(heads.spec, incomplete)}),
        (
            "Spec-Drafter: the vocabulary has 13 tokens",
            {"spec_drafter": SpecDrafterWeights(4, smaller, random_weights(smaller, 1))},
        ),
    ):
        refused(CheckpointError, message, replace, tiny.checkpoint(), **other)


@pytest.mark.parametrize("drafter", ["heads", HeadsDraft(), "spec", SpecDraft()])
def test_a_model_without_the_drafter_refuses_it(drafter: object) -> None:
    message = r"drafter is '(heads|spec)': the model has no (draft heads|Spec-Drafter)"
    refused(message, Model(tiny.checkpoint()).predict, ["C"], drafter=drafter)
