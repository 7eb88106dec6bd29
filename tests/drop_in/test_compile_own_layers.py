"""`molspec.compile` on layers that authors wrote themselves: compiled and equal, or refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molspec import compile  # noqa: A004
from tests import refused
from tests.drop_in.models import VOCABULARY, check_answers
from tests.drop_in.own_layers import PAD, WIDTH, Own, functions

IDS: dict[str, Any] = {"bos_id": 1, "eos_id": 2, "pad_id": PAD, "max_length": 12}
SOURCES = [[1, 5, 6, 7, 2], [1, 9, 2], [1, 3, 8, 8, 4, 12, 11, 10, 2]]

COMPILED: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"pre": True},
    "scaled embeddings, one product for query, key and value": {"scale": 4.0, "fused": True},
    "norms of torch": {"norm": lambda: nn.LayerNorm(WIDTH, eps=1e-3), "pre": True},
    "rms norms in single operations": {"norm": "rms", "pre": True},
    "rms norms of torch": {"norm": lambda: nn.RMSNorm(WIDTH, eps=1e-4), "pre": True},
    "rms norms without eps": {"norm": lambda: nn.RMSNorm(WIDTH), "pre": True},
    "norms by the standard deviation": {"norm": "std"},
    "norms by the standard deviation, before layers": {"norm": "std", "pre": True},
    "rotary positions": {"rotary": ("halves", 8), "adds_places": False, "swapped": True},
    "rotary pairs in one product": {"rotary": ("pairs", 8), "adds_places": False, "fused": True},
    "rotary positions in part": {"rotary": ("halves", 6), "adds_places": False, "pre": True},
    "rotary pairs in part": {"rotary": ("pairs", 4), "adds_places": False},
    "other rotations and added positions": {"rotary": ("backwards", 4)},
    "no positions": {"adds_places": False},
    "a gate in one product": {"gated": True, "activation": F.silu},
    "key and value in another order": {"swapped": True, "activation": F.gelu},
    "log_softmax": {"log_softmax": True},
    "masks PAD in targets": {"masks_pad": True},
}


@pytest.mark.parametrize("kind", COMPILED)
def test_own_layers_are_compiled(kind: str) -> None:
    model = Own(**COMPILED[kind])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    engine = compile(model, **functions(model), max_positions=40)
    pair = functions(model)["encode"], functions(model)["decode"]
    expected = check_answers(engine, pair, SOURCES, 1, 3, **IDS)
    assert len(set(expected.sequences.flatten().tolist())) > 1  # answers are varied
    assert model.training
    for name, value in model.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, before[name])


def test_a_module_is_compiled_with_as_many_positions_as_it_has() -> None:
    model = Own(scale=4.0)
    for given, expected in (({}, 40), ({"max_positions": 2}, 2)):
        spec = compile(model, **functions(model), **given).spec
        assert (spec.positions, spec.max_positions) == ("learned", expected)
    message = r"^max_positions is 41: the module itself fails there, .*; max_positions=40 is the "
    refused(message, compile, model, **functions(model), max_positions=41)


def alternating() -> Callable[[], nn.Module]:
    kinds = iter((nn.LayerNorm, nn.RMSNorm) * 20)
    return lambda: next(kinds)(WIDTH)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "two kinds of norms": (
        {"norm": alternating, "pre": True},
        r"is not as in a pre-norm model of layer norms, as \d+ of 14 are; the nearest differs by",
    ),
    "a head with a dense layer": (
        {"dense_head": True},
        r"decoder\.layers\.2\.self_attention has linear layers .* head with its own dense layer",
    ),
    "fewer key heads": (
        {"key_heads": 1},
        r"encoder\.layers\.0\.self_attention has linear layers .* fewer key heads than query heads",
    ),
    "attention behind tanh": (
        {"capped": True},
        r"encoder\.layers\.0\.self_attention is not attention of .* alone \(without tanh of its "
        r"scores; is its mask, True at padding, inverted\?\); the nearest",
    ),
    "activation": (
        {"activation": torch.tanh},
        "the activation of .* is not relu, gelu, gelu_tanh or silu; the nearest differs by",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_errors_name_what_the_engine_lacks(kind: str) -> None:
    options, message = REFUSED[kind]
    model = Own(**{name: v() if v is alternating else v for name, v in options.items()})
    refused(message, compile, model, **functions(model), max_positions=40)
    assert all(each.dtype == torch.float32 for each in model.parameters())


def test_errors_name_functions_that_ignore_padding() -> None:
    model = Own()

    def encode(ids: Tensor) -> Tensor:
        return model.run(0, ids, torch.zeros(1, 1, 1, 1, dtype=torch.bool), None, None)

    def decode(ids: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        return model.make_logits(ids, memory, torch.zeros_like(padding))

    message = r"a source's logits differ by .* beside a longer source: does encode or decode ignor"
    most = {"max_positions": 40}
    refused(message, compile, model, encode=model.make_memory, decode=decode, **most)
    refused(message, compile, model, VOCABULARY, encode=encode, decode=model.make_logits, **most)


def test_errors_name_random_and_missing_functions() -> None:
    model = Own()
    random = {"encode": lambda ids: F.dropout(model.make_memory(ids), 0.1)}
    message = "the encoder gives two results for one input: is it random"
    refused(message, compile, model, **(functions(model) | random), max_positions=40)
    refused("encode is a method and decode a NoneType", compile, model, encode=model.make_memory)


def test_rms_norms_without_eps_have_that_of_float32() -> None:
    model = Own(norm=lambda: nn.RMSNorm(WIDTH), pre=True)
    spec = compile(model, **functions(model), max_positions=40).spec
    assert spec.norm_eps == pytest.approx(torch.finfo(torch.float32).eps, rel=0.01)
