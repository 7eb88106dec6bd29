from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from molspec.checkpoints import Checkpoint, CheckpointError
from molspec.text import Vocabulary

Weights = dict[str, torch.Tensor]
NAME = "decoder.layers.1.cross_attention.key.weight"


def without(weights: Weights) -> None:
    del weights[NAME]


def renamed(weights: Weights) -> None:
    weights["decoder.layers.2.norm"] = torch.zeros(8)


def transposed(weights: Weights) -> None:
    weights["encoder.layers.0.feed_forward.inner.weight"] = torch.zeros(8, 12)


def holding(value: float) -> Callable[[Weights], None]:
    def change(weights: Weights) -> None:
        weights[NAME][3, 4] = value

    return change


def whole_numbers(weights: Weights) -> None:
    weights[NAME] = weights[NAME].long()


def text(weights: Weights) -> None:
    weights[NAME] = "text"  # type: ignore[assignment]


def emptied(weights: Weights) -> None:
    weights.clear()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without, f"missing weights: {NAME}$"),
        (emptied, r"missing weights: decoder.layers.0.cross_attention.key.bias, .* and 70 more$"),
        (renamed, r"unexpected weights: decoder.layers.2.norm$"),
        (transposed, r"feed_forward.inner.weight has shape \(8, 12\): expected \(12, 8\)$"),
        (holding(float("nan")), f"weight {NAME} holds NaN or infinity$"),
        (holding(float("-inf")), f"weight {NAME} holds NaN or infinity$"),
        (whole_numbers, f"weight {NAME} is of torch.int64: expected floating point$"),
        (text, f"weight {NAME} is a str: expected a tensor$"),
    ],
)
def test_broken_weights_are_named(
    checkpoint: Checkpoint, damage: Callable[[Weights], None], message: str
) -> None:
    weights = {name: weight.clone() for name, weight in checkpoint.weights.items()}
    damage(weights)
    with pytest.raises(CheckpointError, match=message):
        replace(checkpoint, weights=weights)


def test_a_vocabulary_must_fit(checkpoint: Checkpoint) -> None:
    larger = Vocabulary((*checkpoint.vocabulary.tokens, "N"), unk_id=3)
    with pytest.raises(
        CheckpointError,
        match=r"^the vocabulary has 8 tokens, but the source embedding has 7 rows$",
    ):
        replace(checkpoint, vocabulary=larger)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_to_rounds_every_weight(checkpoint: Checkpoint, dtype: str) -> None:
    rounded = checkpoint.to(dtype)
    assert rounded.dtype == dtype
    assert (rounded.spec, rounded.vocabulary) == (checkpoint.spec, checkpoint.vocabulary)
    assert (rounded.ngram, rounded.card) == (checkpoint.ngram, checkpoint.card)
    for name, weight in checkpoint.weights.items():
        assert torch.equal(rounded.weights[name], weight.to(getattr(torch, dtype)))


def test_to_refuses_unknown_types_and_overflow(checkpoint: Checkpoint) -> None:
    with pytest.raises(
        ValueError, match=r"^dtype is 'int8': expected one of float32, float16, bfl"
    ):
        checkpoint.to("int8")
    checkpoint.weights[NAME][0, 0] = 1e5
    with pytest.raises(CheckpointError, match=f"^in float16, weight {NAME} holds NaN or infinity$"):
        checkpoint.to("float16")


def test_a_fingerprint_is_that_of_what_answers(checkpoint: Checkpoint) -> None:
    same = replace(checkpoint, card="another", task="retro")
    assert same.fingerprint() == checkpoint.fingerprint()
    weights = {**checkpoint.weights, NAME: checkpoint.weights[NAME].clone()}
    weights[NAME][0, 0] += 1
    others = (
        replace(checkpoint, weights=weights),
        replace(checkpoint, ngram=b"other"),
        replace(checkpoint, canonical_queries=not checkpoint.canonical_queries),
        checkpoint.to("float16"),
    )
    assert len({each.fingerprint() for each in (checkpoint, *others)}) == 5


def test_an_unknown_task(checkpoint: Checkpoint) -> None:
    with pytest.raises(CheckpointError, match="task is 'both': expected retro or product"):
        replace(checkpoint, task="both")  # type: ignore[arg-type]
