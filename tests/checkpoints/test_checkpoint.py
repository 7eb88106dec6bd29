from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from molspec.checkpoints import Checkpoint, CheckpointError
from molspec.text import Vocabulary

Weights = dict[str, torch.Tensor]
NAME = "decoder.layers.1.cross_attention.key.weight"


def remove_weight(weights: Weights) -> None:
    del weights[NAME]


def add_unexpected_weight(weights: Weights) -> None:
    weights["decoder.layers.2.norm"] = torch.zeros(8)


def transpose_weight(weights: Weights) -> None:
    weights["encoder.layers.0.feed_forward.inner.weight"] = torch.zeros(8, 12)


def set_element(value: float) -> Callable[[Weights], None]:
    def change(weights: Weights) -> None:
        weights[NAME][3, 4] = value

    return change


def convert_to_integers(weights: Weights) -> None:
    weights[NAME] = weights[NAME].long()


def replace_by_text(weights: Weights) -> None:
    weights[NAME] = "text"  # type: ignore[assignment]


def remove_all_weights(weights: Weights) -> None:
    weights.clear()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove_weight, f"missing weights: {NAME}$"),
        (
            remove_all_weights,
            r"missing weights: decoder.layers.0.cross_attention.key.bias, .* and 70 more$",
        ),
        (add_unexpected_weight, r"unexpected weights: decoder.layers.2.norm$"),
        (transpose_weight, r"feed_forward.inner.weight has shape \(8, 12\): expected \(12, 8\)$"),
        (set_element(float("nan")), f"weight {NAME} holds NaN or infinity$"),
        (set_element(float("-inf")), f"weight {NAME} holds NaN or infinity$"),
        (convert_to_integers, f"weight {NAME} is of torch.int64: expected floating point$"),
        (replace_by_text, f"weight {NAME} is a str: expected a tensor$"),
    ],
)
def test_error_names_invalid_weight(
    checkpoint: Checkpoint, damage: Callable[[Weights], None], message: str
) -> None:
    weights = {name: weight.clone() for name, weight in checkpoint.weights.items()}
    damage(weights)
    with pytest.raises(CheckpointError, match=message):
        replace(checkpoint, weights=weights)


def test_vocabulary_size_must_match_embedding(checkpoint: Checkpoint) -> None:
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


def test_to_refuses_unknown_dtypes_and_overflow(checkpoint: Checkpoint) -> None:
    with pytest.raises(
        ValueError, match=r"^dtype is 'int8': expected one of float32, float16, bfl"
    ):
        checkpoint.to("int8")
    checkpoint.weights[NAME][0, 0] = 1e5
    with pytest.raises(CheckpointError, match=f"^in float16, weight {NAME} holds NaN or infinity$"):
        checkpoint.to("float16")


def test_fingerprint_changes_with_weights_but_not_with_card(checkpoint: Checkpoint) -> None:
    same = replace(checkpoint, card="another", task="retro")
    assert same.fingerprint() == checkpoint.fingerprint()
    weights = {**checkpoint.weights, NAME: checkpoint.weights[NAME].clone()}
    weights[NAME][0, 0] += 1
    changed = (
        replace(checkpoint, weights=weights),
        replace(checkpoint, ngram=b"other"),
        replace(checkpoint, canonical_queries=not checkpoint.canonical_queries),
        checkpoint.to("float16"),
    )
    assert len({variant.fingerprint() for variant in (checkpoint, *changed)}) == 5


def test_unknown_task_is_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(CheckpointError, match="task is 'both': expected retro or product"):
        replace(checkpoint, task="both")  # type: ignore[arg-type]
