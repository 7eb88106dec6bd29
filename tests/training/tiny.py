"""A training of a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import TypeVar

import pytest
import torch
from torch import Tensor

from molspec.training import TrainConfig
from molspec.training.drafters import DrafterTrainer

Training = TypeVar("Training", bound=DrafterTrainer)

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


def stopped_thrice(begun: Callable[[], Training]) -> Training:
    """A drafter's training of forty steps, stopped three times and gone on with to its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("molspec.training.drafters._SAVED_STEPS", 12)
        for _ in range(3):
            list(islice(begun().run(), 15))
    last = begun()
    assert 30 < last.step_count < 40
    list(last.run())
    return last
