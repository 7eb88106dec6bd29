"""Checks of a model before it decodes, and the models and input that they refuse."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from molspec import decode
from tests.drop_in.models import (
    BOS,
    EOS,
    PAD,
    NotCausal,
    OffsetTransformer,
    PlainTransformer,
    callables,
    log_softmax,
    softmax,
)
from tests.drop_in.own_layers import Own, functions
from tests.refusals import refused

IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD, "max_length": 12}
SOURCES = [[BOS, 5, 6, 7, EOS], [BOS, 9, EOS]]


#: Two methods of a module with 40 learned positions.
LEARNED = tuple(functions(Own()).values())

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an id out of range": (
        {"source_ids": [*SOURCES, [BOS, 15, 99, EOS]]},
        r"^source_ids holds 99: the model itself fails there, an nn.Embedding of 15 rows is",
    ),
    "an id out of range of functions": (
        {"model": callables(PlainTransformer(seed=14)), "source_ids": [[BOS, 99, EOS]]},
        "^source_ids holds 99: the model itself fails there, an",
    ),
    "max_length beyond learned positions": (
        {"model": LEARNED, "max_length": 41},
        r"^max_length is 41: the model itself fails there, an nn.Embedding of 40 rows is indexed",
    ),
    "max_length beyond a buffer": (
        {"max_length": 601},
        r"^max_length is 601: the model itself fails there, index 600 is out of bounds",
    ),
    "a source beyond positions": (
        {"model": LEARNED, "source_ids": [*SOURCES, [5] * 41]},
        r"^source_ids\[2\] has 41 ids: the model itself fails there, an nn.Embedding of 40 rows",
    ),
    "a decoder that is not causal": (
        {"model": NotCausal(seed=14)},
        r"^the model's decoder is not causal: the log-probability of a token changes by \S+ wi",
    ),
    "probabilities": (
        {"model": PlainTransformer(seed=14, output=softmax)},
        "^the model's decoder gives probabilities, which sum to 1",
    ),
    "a list for a mapping": ({"source_to_target": [0, 1, 2]}, "^source_to_target is a list"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_decode_refuses_invalid_models_and_input(kind: str) -> None:
    changes, message = REFUSED[kind]
    usual = {"model": PlainTransformer(seed=14), "source_ids": SOURCES}
    refused(message, decode, **{**usual, **IDS, **changes})


def test_errors_for_unknown_options_suggest_known_ones() -> None:
    for name, message in (("patience", ""), ("beam_width", r": did you mean beam_size\?")):
        message = f"^decode has no option '{name}'{message}"
        refused(TypeError, message, decode, PlainTransformer(), SOURCES, **IDS, **{name: 2})


def test_lengths_up_to_the_positions_are_accepted() -> None:
    decode(LEARNED, [[5] * 40, *SOURCES], **{**IDS, "max_length": 40})


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_rounding_does_not_fail_the_checks(dtype: torch.dtype) -> None:
    logs = PlainTransformer(seed=14, output=log_softmax)
    for model in (PlainTransformer(seed=14), OffsetTransformer(seed=14), logs):
        found = decode(model.to(dtype), SOURCES, **{**IDS, "max_length": 100})
        assert found.log_probs.dtype == torch.float64
    refused("is not causal", decode, NotCausal(seed=14).to(dtype), SOURCES, **IDS)


def test_a_model_is_checked_once() -> None:
    calls = []

    class Counting(PlainTransformer):
        def decode_tgt(self, tgt: Tensor, memory: Tensor, memory_pad_mask: Tensor) -> Tensor:
            calls.append(tuple(tgt.shape))
            return super().decode_tgt(tgt, memory, memory_pad_mask)

    model = Counting(seed=14)
    first = decode(model, SOURCES, **IDS)
    count = len(calls)
    assert (2, IDS["max_length"]) in calls
    again = decode(model, SOURCES, **IDS)
    assert len(calls) == 2 * count - 5
    assert torch.equal(again.sequences, first.sequences)
    assert not any(submodule._forward_pre_hooks for submodule in model.modules())
    refused("max_length is 601", decode, model, SOURCES, **{**IDS, "max_length": 601})


def test_a_resized_module_is_checked_again() -> None:
    model = PlainTransformer(seed=14)
    decode(model, SOURCES, **IDS)
    model.next_token_classifier = nn.Linear(16, 12)
    found = decode(model, SOURCES, **IDS)
    assert torch.equal(found.sequences, decode(model, SOURCES, **IDS, drafter="none").sequences)
