"""Settings of a training."""

from typing import Any

import pytest

from molspec.training import TrainConfig
from molspec.training.trainer import learning_rate_factor
from tests import refused


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "minutes is None and steps is None: expected exactly one"),
        ({"minutes": 1.0, "steps": 2}, "expected exactly one"),
        ({"steps": 1, "dropout": 1.0}, r"dropout is 1\.0: expected at least 0, below 1"),
        ({"steps": 1, "model": {"d_model": 30}}, "d_model is 30: expected a multiple"),
        ({"steps": 1, "model": {"width": 30}}, "unknown model fields: width; expected d_model"),
        ({"steps": 1, "model": {"source_vocab_size": 9}}, "model has source_vocab_size"),
        ({"steps": "6"}, "steps is '6': expected a whole number"),
        ({"steps": 1, "model": None}, "model is None: expected fields of ModelSpec"),
        (
            {"steps": 1, "exit_layers": -1},
            "exit_layers is -1: expected a whole number of at least 0",
        ),
        ({"steps": 1, "epochs": 3}, "unknown training fields: epochs; known: batch_tokens, "),
    ],
)
def test_error_names_a_wrong_value(values: dict[str, Any], message: str) -> None:
    refused(message, TrainConfig.from_json, values)


def test_json_round_trip() -> None:
    config = TrainConfig(steps=10, model={"d_model": 64}, patience=2)
    assert TrainConfig.from_json(config.to_json()) == config
    assert config.spec(9).d_model == 64
    assert config.spec(9).target_vocab_size == 9
    assert TrainConfig(minutes=3, dropout=0, save_minutes=1).minutes == 3  # numbers may be whole


def test_learning_rate_rises_then_falls_to_zero() -> None:
    factors = [learning_rate_factor(progress, 0.2) for progress in (0.0, 0.1, 0.2, 0.6, 1.0)]
    assert factors == [0.0, 0.5, 1.0, 0.5, 0.0]
    assert learning_rate_factor(0.0, 0.0) == 1.0
    assert learning_rate_factor(1.5, 0.1) == 0.0
