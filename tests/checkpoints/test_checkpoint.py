from dataclasses import replace
from typing import Any

import pytest
import torch

from molspec.checkpoints import Checkpoint, CheckpointError
from tests import refused

NAME = "decoder.layers.1.cross_attention.key.weight"


def element(value: float) -> torch.Tensor:
    """The weight of this name with one other element."""
    return torch.zeros(8, 8).index_put_((torch.tensor(3), torch.tensor(4)), torch.tensor(value))


INNER = "encoder.layers.0.feed_forward.inner.weight"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({NAME: None}, f"missing weights: {NAME}$"),
        (None, r"missing weights: decoder.layers.0.cross_attention.key.bias, .* and 70 more$"),
        ({"decoder.layers.2.norm": torch.zeros(8)}, r"unexpected weights: decoder.layers.2.norm$"),
        ({INNER: torch.zeros(8, 12)}, rf"{INNER} has shape \(8, 12\): expected \(12, 8\)$"),
        ({NAME: element(float("nan"))}, f"weight {NAME} holds NaN or infinity$"),
        ({NAME: element(float("-inf"))}, f"weight {NAME} holds NaN or infinity$"),
        ({NAME: torch.ones(8, 8).long()}, f"weight {NAME} is of torch.int64: expected floating p"),
        ({NAME: "text"}, f"weight {NAME} is a str: expected a tensor$"),
    ],
)
def test_error_names_invalid_weight(
    checkpoint: Checkpoint, changes: dict[str, Any] | None, message: str
) -> None:
    """None stands for what is missing."""
    weights = {} if changes is None else {**checkpoint.weights, **changes}
    present = {name: weight for name, weight in weights.items() if weight is not None}
    refused(CheckpointError, message, replace, checkpoint, weights=present)


def test_to_keeps_rotations(checkpoint: Checkpoint) -> None:
    spec = replace(checkpoint.spec, rotary_columns=4)
    turned = {**checkpoint.weights, "rotary": torch.rand(spec.max_positions, 4)}
    rounded = replace(checkpoint, spec=spec, weights=turned).to("bfloat16")
    assert torch.equal(rounded.weights["rotary"], turned["rotary"])
    assert rounded.dtype == "bfloat16"


def test_to_refuses_unknown_dtypes_and_overflow(checkpoint: Checkpoint) -> None:
    refused("^dtype is 'int8'", checkpoint.to, "int8")
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
