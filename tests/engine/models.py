"""Tiny random models in every convention that the engine supports."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from molspec.model.positions import rotations
from molspec.model.spec import ModelSpec

#: Odd sizes on purpose: head sizes not multiples of 16, row sizes not multiples of 64.
TINY = ModelSpec(
    13,
    13,
    d_model=24,
    head_count=3,
    encoder_layers=2,
    decoder_layers=2,
    feed_forward=37,
    max_positions=96,
)
_T5 = {
    "norm": "pre",
    "norm_kind": "rms",
    "norm_eps": 1e-6,
    "positions": "relative",
    "relative_buckets": 8,
    "relative_max_distance": 20,
    "scale_attention": False,
    "biases": False,
    "output_bias": False,
    "attention_width": 18,
}
CONVENTIONS: dict[str, dict[str, object]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre"},
    "scaled": {"scale_embedding": True, "d_model": 64, "head_count": 4},
    "no final norm": {"final_norm": False},
    "embedding norm": {"embedding_norm": True, "positions": "learned"},
    "separate tables": {"shared_embedding": False, "source_vocab_size": 17},
    "tied output": {"tied_output": True, "output_bias": False},
    "gelu": {"activation": "gelu"},
    "silu": {"activation": "silu", "norm": "pre"},
    "one head, one layer": {"head_count": 1, "encoder_layers": 1, "decoder_layers": 1},
    "wide head": {"d_model": 48, "head_count": 1},
    "widest head": {"d_model": 100, "head_count": 1},
    "whole panels": {"d_model": 64, "head_count": 4, "feed_forward": 128},
    "mostly silent units": {"feed_forward": 576},
    "rms norm": {"norm_kind": "rms", "embedding_norm": True},
    "std norm": {"norm_kind": "std", "norm_eps": 0.1, "norm": "pre"},
    "relative positions": {"positions": "relative"},
    "relative positions by layer": {"positions": "relative", "relative_per_layer": True},
    "no positions": {"positions": "none"},
    "rotary positions": {"positions": "none", "rotary_columns": 8},
    "rotary positions in part": {"positions": "none", "rotary_columns": 6, "head_count": 1},
    "rotary and added positions": {"rotary_columns": 2, "attention_width": 60, "norm": "pre"},
    "gated": {"gated": True, "activation": "silu", "attention_width": 60},
    "t5": {**_T5, "tied_output": True},
    "t5 v1.1": {**_T5, "gated": True, "activation": "gelu_tanh"},
}


def spec_of(convention: str) -> ModelSpec:
    return ModelSpec(**{**TINY.to_json(), **CONVENTIONS[convention]})


def random_weights(spec: ModelSpec, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in spec.weight_shapes().items():
        values = torch.randn(shape, generator=generator)
        if "query" in name and not spec.scale_attention:  # as in T5's initialisation
            values *= spec.head_dim**-0.5
        if len(shape) == 2:
            weights[name] = values * (1.5 / shape[1] ** 0.5)
        else:
            silent = 3.0 * ("inner.bias" in name and spec.feed_forward > 500)
            weights[name] = values * 0.2 + float("norm.weight" in name) - silent
    if spec.rotary_columns is not None:
        weights["rotary"] = rotations(spec.max_positions, spec.rotary_columns)
    return weights


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
