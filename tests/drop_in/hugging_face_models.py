"""Tiny random Hugging Face encoder-decoders whose output differs at every step."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("transformers")

import transformers

VOCAB_SIZE = 20
_BART = {
    "vocab_size": VOCAB_SIZE,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 64,
    "forced_eos_token_id": None,
    "decoder_start_token_id": 2,
}
_T5 = {
    "vocab_size": VOCAB_SIZE,
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 32,
    "num_layers": 2,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}


def made(
    kind: str, embedding: float = 0.3, attention: float = 0.6, seed: int = 5, **options: Any
) -> nn.Module:
    """A model of a type, whose config has BART's options or T5's.

    embedding, attention: standard deviations of weights.
    """
    sizes = _T5 if "T5" in kind else _BART
    config = getattr(transformers, f"{kind}Config")(**{**sizes, **options})
    name = "MarianMTModel" if kind == "Marian" else f"{kind}ForConditionalGeneration"
    return _randomised(getattr(transformers, name)(config), embedding, attention, seed)


def bart(**options: Any) -> nn.Module:
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    return made("Bart", 1.5, **{**ids, **options})


def marian(**options: Any) -> nn.Module:
    ids = {"pad_token_id": 19, "eos_token_id": 0, "decoder_start_token_id": 19}
    settings = {"activation_function": "swish", "scale_embedding": True}
    return made("Marian", 0.12, **{**ids, **settings, **options})


def t5(seed: int = 5, **options: Any) -> nn.Module:
    return made("T5", 0.3, 2.0, seed, **options)


def t5_v1_1(**options: Any) -> nn.Module:
    return t5(4, feed_forward_proj="gated-gelu", tie_word_embeddings=False, **options)


MODELS: dict[str, Callable[..., nn.Module]] = {
    "bart": bart,
    "marian": marian,
    "t5": t5,
    "t5 v1.1": t5_v1_1,
}


def _randomised(model: nn.Module, embedding: float, attention: float, seed: int) -> nn.Module:
    """Sets weights so large that every token affects all later ones; converts to float64."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and parameter.requires_grad:  # Marian's positions are fixed
            attends = "attn" in name or "attention" in name.lower()
            std = (attention if attends else 2.0) / math.sqrt(parameter.shape[1])
            if "embed_positions" in name or "relative" in name:
                std = 3.0
            elif "embed" in name or "shared" in name:
                std = embedding
            nn.init.normal_(parameter, std=std, generator=generator)
    return model.double().eval()


def ids_of(model: Any) -> dict[str, int]:
    config = model.config
    return {
        "bos_id": config.decoder_start_token_id,
        "eos_id": config.eos_token_id,
        "pad_id": config.pad_token_id,
    }


def sources(model: Any, count: int = 6, seed: int = 1) -> Tensor:
    """Random sources of unequal lengths that end with EOS, padded on the right."""
    rng = random.Random(seed)
    ids = ids_of(model)
    usable = sorted(set(range(VOCAB_SIZE)) - set(ids.values()))
    rows = [
        torch.tensor([*(rng.choice(usable) for _ in range(rng.randint(1, 15))), ids["eos_id"]])
        for _ in range(count)
    ]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=ids["pad_id"])
