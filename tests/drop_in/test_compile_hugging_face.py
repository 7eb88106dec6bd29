"""`molspec.compile` on models of transformers, which it knows by what they compute."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from molspec import compile  # noqa: A004
from tests import refused
from tests.drop_in.models import check_answers

models = pytest.importorskip("tests.drop_in.hugging_face_models")

SOURCES = [[5, 6, 7, 14, 3], [9, 3], [4, 4, 18, 11, 16, 8, 3]]


@pytest.mark.filterwarnings("ignore:generation_config sets encoder_no_repeat_ngram_size")
@pytest.mark.parametrize(
    "kind",
    [
        *("bart", "marian", "t5", "t5 v1.1"),
        *("MBart", "Pegasus", "BigBirdPegasus", "Blenderbot", "PLBart", "M2M100", "MT5", "UMT5"),
    ],
)
def test_types_are_compiled_by_what_they_compute(kind: str) -> None:
    made = models.MODELS.get(kind) or partial(models.made, kind)
    module: Any = made().float()
    engine = compile(module)
    ids: dict[str, Any] = {**models.ids_of(module), "max_length": 12}
    check_answers(engine, module, SOURCES, 1, 4, **ids)
    assert engine.spec.start_id == ids["bos_id"]
    assert all(parameter.dtype == torch.float32 for parameter in module.parameters())


def test_relative_positions_tell_the_number_of_heads() -> None:
    assert compile(models.t5(num_heads=4)).spec.head_count == 4


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "a norm before positions in the decoder alone": (
        lambda: models.made("BlenderbotSmall"),
        r"decoder\.layers\.0\.self_attention_norm is not as in a post-norm model of layer norms, .*"
        "; does the decoder add positions behind a norm\\? The engine adds them before it",
    ),
    "no output layer": (
        lambda: models.bart().model,
        "the module fails when it is called in float64: .* has no attribute 'logits'",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_errors_name_what_the_engine_lacks(kind: str) -> None:
    make, message = REFUSED[kind]
    refused(message, compile, make())
