"""Checks of a model before it decodes, and the models and input that they refuse."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from molspec import decode
from tests import refused
from tests.drop_in import models, own_layers
from tests.drop_in.models import BOS, EOS, PAD, NotCausal, OffsetTransformer, PlainTransformer

IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD, "max_length": 12}
SOURCES = [[BOS, 5, 6, 7, EOS], [BOS, 9, EOS]]


#: Two methods of a module with 40 learned positions.
LEARNED = tuple(own_layers.functions(own_layers.Own()).values())


def nan_logits(*_: Tensor) -> Tensor:
    return torch.full((1, 1, 5), float("nan"))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an id out of range": (
        {"source_ids": [*SOURCES, [BOS, 15, 99, EOS]]},
        r"^source_ids holds 99: the model itself fails there, an nn.Embedding of 15 rows is",
    ),
    "an id out of range of functions": (
        {"model": models.callables(PlainTransformer(seed=14)), "source_ids": [[BOS, 99, EOS]]},
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
        {"model": PlainTransformer(seed=14, output=models.softmax)},
        "^the model's decoder gives probabilities, which sum to 1",
    ),
    "a list for a mapping": ({"source_to_target": [0, 1, 2]}, "^source_to_target is a list"),
    "no ids": ({"source_ids": []}, "source_ids is empty"),
    "empty": ({"source_ids": [[5], []]}, r"source_ids\[1\] is empty"),
    "padding inside": ({"source_ids": [[5, 0, 6]]}, r"source_ids\[0\] is \[5, 0, 6\]"),
    "only padding": ({"source_ids": [[0, 0]]}, r"source_ids\[0\] is empty"),
    "below 0": ({"source_ids": [[5, -3]]}, r"source_ids\[0\] is \[5, -3\]"),
    "numbers": (
        {"source_ids": torch.rand(2, 3)},
        r"a torch.float32 tensor of shape \(2, 3\): expe",
    ),
    "truth": ({"source_ids": [[True, False, True]]}, r"source_ids\[0\] is \[True, False, True\]"),
    "a row of truth": (
        {"source_ids": [torch.tensor([True])]},
        r"source_ids\[0\] is tensor\(\[True\]\)",
    ),
    "one row": ({"source_ids": torch.tensor([5, 6])}, r"of shape \(2,\)"),
    "pad_id": ({"pad_id": -1}, "pad_id is -1"),
    "padding that is EOS": ({"pad_id": EOS}, "pad_id is 2, as eos_id is"),
    "bos_id": ({"bos_id": 15}, "bos_id is 15: expected a target id, 0 to 14"),
    "eos_id": ({"eos_id": True}, "eos_id is True"),
    "a bool of NumPy": ({"eos_id": np.True_}, "eos_id is .*True.*"),
    "max_length": ({"max_length": 0}, "max_length is 0"),
    **{
        name: ({name: True}, f"{name} is True: expected")
        for name in (
            *("merge_duplicates", "canonical_queries"),
            *("drop_invalid", "drop_unchanged", "drop_impossible"),
        )
    },
    "augmentations": ({"augmentations": 0}, "augmentations is 0: expected 1, token ids"),
    "tokens": ({"tokens": ["C"] * 14}, "tokens has 14 strings"),
    "no list": ({"tokens": 5}, "tokens is a int"),
    "one string": ({"tokens": "C" * 15}, "tokens is a str"),
    "no strings": ({"tokens": list(range(15))}, r"tokens\[0\] is 0"),
    "a map of text": ({"source_to_target": {5: "a"}}, r"an id of source_to_target\[5\] is 'a'"),
    "a map from text": ({"source_to_target": {"a": 5}}, r"an id of source_to_target\['a'\] is 'a'"),
    "a map": ({"source_to_target": {5: 15}}, r"source_to_target\[5\] is 15"),
    "a model": ({"model": nn.Linear(2, 2)}, "model is a Linear"),
    "one callable": ({"model": (len,)}, "model is a tuple"),
    "memory": (
        {"model": (lambda ids: None, nan_logits)},
        r"encode gave a NoneType for source_ids of sh",
    ),
    "memory shape": (
        {"model": (lambda ids: torch.zeros(ids.shape[1], 1, 4), nan_logits)},
        r"encode gave a tensor of shape \(5, 1, 4\) for source_ids of shape \(1, 5\)",
    ),
    "one source": ({"source_ids": [1, 5, 2]}, r"source_ids\[0\] is 1"),
    "fractions": ({"source_ids": [[1, 5.5]]}, r"source_ids\[0\] is \[1, 5.5\]"),
    "text": ({"source_ids": ["CCO"]}, r"source_ids\[0\] is 'CCO'"),
    "a large id": (
        {"source_ids": [[BOS, 2**31, EOS]], "drafter": "none"},
        r"source_ids\[0\] is \[1, 2147483648, 2\]",
    ),
    "a prefix of one id": ({"target_prefix": 5}, "^target_prefix is 5"),
    "a prefix of text": ({"target_prefix": "CC"}, r"^target_prefix\[0\] is 'C'"),
    "a prefix of fractions": ({"target_prefix": [1.5]}, r"^target_prefix is \[1\.5\]"),
    "a prefix of truth": ({"target_prefix": [True]}, r"^target_prefix is \[True\]"),
    "too many prefixes": ({"target_prefix": [[4]] * 3}, "^target_prefix has 3 lists"),
    "a prefix with BOS": ({"target_prefix": [BOS, 5]}, f"^target_prefix begins with BOS {BOS}"),
    "a prefix out of range": ({"target_prefix": [99]}, "^a token of target_prefix is 99"),
    "none": ({"source_ids": None}, "source_ids is a NoneType"),
    "no length": ({"max_length": None}, "max_length is None"),
    "an endless length": ({"max_length": 2**40}, "max_length is 1099511627776"),
    "logits": (
        {"model": (lambda ids: torch.zeros(*ids.shape, 4), lambda *_: torch.zeros(3))},
        r"decode gave a tensor of shape \(3,\) for target_ids of shape \(1, 1\)",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_decode_refuses_invalid_models_and_input(kind: str) -> None:
    changes, message = REFUSED[kind]
    usual = {"model": PlainTransformer(seed=14), "source_ids": SOURCES}
    refused(message, decode, **{**usual, **IDS, **changes})


def test_errors_for_unknown_options_suggest_known_ones() -> None:
    meant = r": did you mean beam_size\?"
    for name, message in (("patience", ""), ("beam_wide", meant), ("num_beams", meant)):
        message = f"^decode has no option '{name}'{message}"
        refused(TypeError, message, decode, PlainTransformer(), SOURCES, **IDS, **{name: 2})


def test_lengths_up_to_the_positions_are_accepted() -> None:
    decode(LEARNED, [[5] * 40, *SOURCES], **{**IDS, "max_length": 40})


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_rounding_does_not_fail_the_checks(dtype: torch.dtype) -> None:
    logs = PlainTransformer(seed=14, output=models.log_softmax)
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
