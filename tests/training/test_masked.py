"""Training Spec-Drafters: what is stopped ends with the same weights, no MASK sees its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from molspec import checkpoints
from molspec.checkpoints import Checkpoint
from molspec.model.transformer import Transformer
from molspec.predictor import load
from molspec.training import prepared
from molspec.training.config import SpecDrafterConfig
from molspec.training.masked import SpecDrafterTrainer, accepted, guesses
from molspec.training.masked_layout import Lay, causal, published
from tests import tiny
from tests.engine.models import random_weights
from tests.training.test_heads import answers
from tests.training.tiny import assert_equal, stopped_thrice

SIZES = {"encoder_layers": 1, "decoder_layers": 1}
CONFIG = SpecDrafterConfig(k=4, steps=40, batch_tokens=400, learning_rate=5e-3, **SIZES)


@pytest.mark.parametrize("published", [False, True])
def test_it_learns_and_goes_on_to_the_same_weights(tmp_path: Path, published: bool) -> None:
    config = replace(CONFIG, published=published)
    whole = SpecDrafterTrainer(tiny.checkpoint(), answers(), config, tmp_path / "whole.pt")
    steps = whole.run()
    assert next(steps) == 1
    begun = float(whole.accuracy[0])
    assert list(steps) == list(range(2, 41))
    assert float(whole.accuracy[0]) > begun + 0.1  # a mean over the last steps
    last = stopped_thrice(
        lambda: SpecDrafterTrainer(tiny.checkpoint(), answers(), config, tmp_path / "state.pt")
    )
    assert_equal(last.model.state_dict(), whole.model.state_dict())


def test_it_begins_with_the_model(tmp_path: Path) -> None:
    begun = SpecDrafterTrainer(tiny.checkpoint(), answers(), CONFIG, tmp_path / "state.pt")
    weights = tiny.checkpoint().weights
    assert_equal(
        begun.model.state_dict(), {name: weights[name] for name in begun.model.state_dict()}
    )


def twin() -> Transformer:
    model = Transformer(tiny.SPEC, 0.0, tiny.VOCABULARY.pad_id).eval()
    model.load_state_dict(dict(tiny.checkpoint().weights))
    return model


TARGETS = torch.tensor([[1, 4, 5, 6, 7, 8, 4, 2], [1, 6, 6, 9, 2, 0, 0, 0]])
PREFIXES = torch.tensor([[2, 5], [1, 3]])


@pytest.mark.parametrize("lay", [causal, published])
def test_what_is_guessed_and_what_is_seen(lay: Lay) -> None:
    """Of every prefix, k tokens behind it; none changes what is guessed of it."""
    model, k = twin(), 4
    layout = lay(TARGETS, PREFIXES, k, 0)
    wanted: dict[int, set[tuple[int, ...]]] = {0: set(), 1: set()}
    for row, pair in enumerate(layout.pairs.tolist()):
        masks = layout.masks[row].nonzero().flatten().tolist()
        for start in (place for place in masks if layout.ahead[row, place] == 1):
            chain = [place for place in masks if place >= start][: k - 1]
            chain = [p for n, p in enumerate(chain) if layout.ahead[row, p] == n + 1]
            wanted[pair].add(tuple(layout.wanted[row, chain].tolist()))
    assert (6, 7, 8) in wanted[0]
    assert (2, 0) in {chain[:2] for chain in wanted[1]}  # EOS, and nothing behind it
    memory = model.encode(TARGETS, TARGETS == 0)
    with torch.inference_mode():
        before = guesses(model, layout, memory, TARGETS == 0)
        other = TARGETS.clone()
        other[0, 5:7] = 9  # behind all prefixes of the first
        after = guesses(model, lay(other, PREFIXES, k, 0), memory, TARGETS == 0)
    there = layout.masks & (layout.pairs == 0)[:, None]
    assert torch.equal(before[there], after[there])


def test_masks_are_seen_from_before_them_only_as_published() -> None:
    model, prefixes = twin(), torch.ones(2, 1, dtype=torch.long)
    memory = model.encode(TARGETS, TARGETS == 0)

    def behind_bos(lay: Lay, k: int) -> torch.Tensor:
        return guesses(model, lay(TARGETS, prefixes, k, 0), memory, TARGETS == 0)[:, 0]

    own = behind_bos(causal, 1)
    torch.testing.assert_close(behind_bos(published, 1), own)
    torch.testing.assert_close(behind_bos(causal, 3), own)
    assert not torch.allclose(behind_bos(published, 3), own)


@pytest.mark.parametrize("lay", [causal, published])
def test_what_is_revealed_is_not_counted_where_it_is_seen(lay: Lay) -> None:
    layout = lay(TARGETS, PREFIXES, 4, 0)
    shown = layout.revealed(layout.masks & (layout.truth != 0), 0)
    assert torch.equal(shown.ids[layout.masks], layout.truth[layout.masks])
    counted = int((shown.wanted != 0).sum())
    assert (counted == int((layout.wanted != 0).sum())) == (lay is causal)


def test_iterations_count_what_is_confirmed() -> None:
    """A model that is its own drafter, with k of 1: one token and the next one an iteration."""
    tokens, iterations = accepted(twin(), causal, tiny.checkpoint(), answers(), 1)
    pairs = answers().pairs()
    assert tokens == sum(len(target) + 1 for _, target in pairs)
    finished = [target for _, target in pairs if len(target) < 29]
    assert iterations >= sum(-(-(len(target) + 1) // 2) for target in finished)
    assert iterations <= sum(-(-(len(target) + 1) // 2) for _, target in pairs) + len(pairs)


def test_another_training_is_refused(tmp_path: Path) -> None:
    few = replace(CONFIG, steps=1)
    list(SpecDrafterTrainer(tiny.checkpoint(), answers(), few, tmp_path / "state.pt").run())
    for checkpoint, config, name in (
        (tiny.checkpoint(), replace(few, k=3), "config"),
        (tiny.checkpoint(seed=2), few, "model"),
    ):
        with pytest.raises(ValueError, match=f"holds a training of a drafter with the {name}"):
            SpecDrafterTrainer(checkpoint, answers(), config, tmp_path / "state.pt")


@pytest.mark.parametrize(
    ("name", "value"), [("k", 0), ("k", 65), ("prefixes", 0), ("glancing", 1.5), ("steps", 0)]
)
def test_values_that_make_no_sense_are_named(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        replace(CONFIG, **{name: value})  # type: ignore[arg-type]


def test_the_command(data: Path, tmp_path: Path, run: Callable[..., int]) -> None:
    vocabulary = prepared.read(data).vocabulary
    spec = replace(tiny.SPEC, source_vocab_size=vocabulary.size, target_vocab_size=vocabulary.size)
    checkpoint = Checkpoint(spec, random_weights(spec, 1), vocabulary, task="retro")
    checkpoints.write(checkpoint, tmp_path / "small")

    def arguments(data: Path, output: str, *more: str) -> list[str]:
        begin = ["train-drafter", str(tmp_path / "small"), "--data", str(data), "--pairs", "8"]
        sizes = ["--steps", "3", "--k", "4", "--encoder-layers", "1", "--width", "16"]
        return [*begin, *sizes, "--output", str(tmp_path / output), *more]

    assert run(*arguments(data, "run")) == 0
    weights = tmp_path / "run" / "model" / "spec" / "model.safetensors"
    written = weights.read_bytes()
    assert run(*arguments(data, "run")) == 0  # all done: the same again
    assert weights.read_bytes() == written
    # What it has distilled is taken as it is.
    assert run(*arguments(tmp_path / "run" / "data", "again")) == 0
    assert (tmp_path / "again" / "model" / "spec" / "model.safetensors").read_bytes() == written
    assert not (tmp_path / "again" / "data" / "answers.jsonl").exists()
    results = load(tmp_path / "run" / "model").predict(["CCO"], drafter="spec", max_length=9)
    assert results.statistics.drafted_tokens > 0
    assert run(*arguments(data, "other", "--glancing", "2")) == 2
    # No engine runs the published form.
    assert run(*arguments(tmp_path / "run" / "data", "published", "--published")) == 0
    assert not (tmp_path / "published" / "model").exists()
