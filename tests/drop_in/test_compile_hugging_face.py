"""`molspec.compile` on models of transformers, which it knows by what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from molspec import compile, decode  # noqa: A004

models = pytest.importorskip("tests.drop_in.hugging_face_models")

SOURCES = [[5, 6, 7, 14, 3], [9, 3], [4, 4, 18, 11, 16, 8, 3]]


@pytest.mark.filterwarnings("ignore:generation_config sets encoder_no_repeat_ngram_size")
@pytest.mark.parametrize(
    "kind", ["MBart", "Pegasus", "BigBirdPegasus", "Blenderbot", "PLBart", "M2M100", "MT5"]
)
def test_types_are_compiled_by_what_they_compute(kind: str) -> None:
    module: Any = models.made(kind).float()
    engine = compile(module)
    ids: dict[str, Any] = {**models.ids_of(module), "max_length": 12}
    for n_best in (1, 4):
        expected = decode(module, SOURCES, n_best=n_best, **ids)
        found = decode(engine, SOURCES, n_best=n_best, **ids)
        assert torch.equal(found.sequences, expected.sequences)
        torch.testing.assert_close(found.log_probs, expected.log_probs, atol=2e-4, rtol=1e-5)
    assert engine.spec.start_id == ids["bos_id"]
    assert all(parameter.dtype == torch.float32 for parameter in module.parameters())


def test_relative_positions_tell_the_number_of_heads() -> None:
    assert compile(models.t5(num_heads=4)).spec.head_count == 4


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "rotary positions": (
        models.t5_gemma,
        r"encoder\.layers\.0\.self_attention is not attention of .* such as rotary positions; ",
    ),
    "a table a layer": (
        lambda: models.made("UMT5"),
        "every layer has its own table of relative positions: expected one table",
    ),
    "a norm before positions": (
        lambda: models.made("BlenderbotSmall"),
        r"decoder\.layers\.0\.self_attention_norm is not as in a post-norm model of layer norms",
    ),
    "no output layer": (
        lambda: models.bart().model,
        "the module fails when it is called in float64: .* has no attribute 'logits'",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_errors_name_what_the_engine_lacks(kind: str) -> None:
    make, message = REFUSED[kind]
    with pytest.raises(ValueError, match=message):
        compile(make())
