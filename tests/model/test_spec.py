"""The checks, weight shapes and JSON of a ModelSpec."""

from typing import Any

import pytest

from molspec.model.spec import ModelSpec

BAD: dict[str, dict[str, Any]] = {
    "d_model is 8: expected a multiple of head_count 3": {"d_model": 8, "head_count": 3},
    "attention_width is 10: expected a multiple of head_count 8": {"attention_width": 10},
    "d_model is 1: expected at least 2 for the norm_kind std": {
        "d_model": 1,
        "head_count": 1,
        "norm_kind": "std",
    },
    "rotary_columns is 3: expected an even number, at most the head's 32 columns": {
        "rotary_columns": 3
    },
    "rotary_columns is 34: expected an even number, at most the head's 32": {"rotary_columns": 34},
    "rotary_columns is 0: expected a whole number of at least 2": {"rotary_columns": 0},
    "relative_buckets is 3: expected at least 4": {"relative_buckets": 3},
    "relative_max_distance is 16: expected more than half of relative_buckets 32": {
        "relative_max_distance": 16
    },
    "encoder_layers is 300000: expected at most 1024": {"encoder_layers": 300_000},
    "max_positions is 1048576: expected at most 16384": {"max_positions": 2**20},
    f"d_model is {10**30}: expected at most 1048576": {"d_model": 10**30},
    "head_count is 128: expected at most 64": {"head_count": 128},
}


@pytest.mark.parametrize("message", BAD)
def test_error_names_an_invalid_field(message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        ModelSpec(**{"source_vocab_size": 9, "target_vocab_size": 9, **BAD[message]})


def test_attention_width_may_differ_from_d_model() -> None:
    spec = ModelSpec(9, 9, d_model=10, head_count=4, attention_width=12, biases=False, gated=True)
    assert spec.head_dim == 3
    shapes = spec.weight_shapes()
    layer = "decoder.layers.0"
    assert shapes[f"{layer}.cross_attention.key.weight"] == (12, 10)
    assert shapes[f"{layer}.cross_attention.output.weight"] == (10, 12)
    assert shapes[f"{layer}.feed_forward.gate.weight"] == (2048, 10)
    assert [name for name in shapes if name.endswith("bias")] == ["output.bias"]


def test_spec_round_trips_through_json() -> None:
    spec = ModelSpec(9, 9, norm_kind="rms", positions="relative", relative_buckets=8)
    assert ModelSpec.from_json(spec.to_json()) == spec
    assert spec.weight_shapes()["encoder.relative_bias"] == (8, 8)


def test_positions_of_each_layer_and_rotations_are_written() -> None:
    spec = ModelSpec(9, 9, positions="relative", relative_per_layer=True, rotary_columns=4)
    assert ModelSpec.from_json(spec.to_json()) == spec
    assert spec.weight_shapes()["rotary"] == (512, 4)
    assert spec.weight_shapes()["decoder.layers.3.relative_bias"] == (32, 8)
