"""A training of a second."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from molspec.training import TrainConfig

CONFIG = TrainConfig(
    steps=24,
    model={
        "d_model": 16,
        "head_count": 2,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "feed_forward": 32,
        "max_positions": 96,
    },
    batch_tokens=800,
    learning_rate=1e-2,
    validate_every=8,
    validation_pairs=12,
    decoded_pairs=4,
)


def assert_equal(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        assert torch.equal(found[name], weight), name
