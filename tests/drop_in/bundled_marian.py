"""A bundled model as Hugging Face's Marian, exactly.

Marian has no norm after its stacks. The last layer ends with a norm, so that norm is replaced by
itself and the stack's norm in a row: the same function in the stock architecture.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from molspec.checkpoints import Checkpoint
from molspec.model.positions import sinusoidal_positions

_PARTS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


def marian_of(checkpoint: Checkpoint) -> MarianMTModel:
    spec, vocabulary = checkpoint.spec, checkpoint.vocabulary
    config = MarianConfig(
        vocab_size=spec.target_vocab_size,
        d_model=spec.d_model,
        encoder_layers=spec.encoder_layers,
        decoder_layers=spec.decoder_layers,
        encoder_attention_heads=spec.head_count,
        decoder_attention_heads=spec.head_count,
        encoder_ffn_dim=spec.feed_forward,
        decoder_ffn_dim=spec.feed_forward,
        activation_function=spec.activation,
        max_position_embeddings=spec.max_positions,
        scale_embedding=spec.scale_embedding,
        tie_word_embeddings=False,
        pad_token_id=vocabulary.pad_id,
        bos_token_id=vocabulary.bos_id,
        eos_token_id=vocabulary.eos_id,
        decoder_start_token_id=vocabulary.bos_id,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config).eval()
    weights = dict(checkpoint.weights)
    with torch.no_grad():
        for name, stack in (("encoder", model.model.encoder), ("decoder", model.model.decoder)):
            stack.embed_tokens.weight.copy_(weights["source_embedding"])
            table = sinusoidal_positions(spec.max_positions, spec.d_model)
            side = "source" if name == "encoder" else "target"
            stack.embed_positions.weight.copy_(weights.get(f"{side}_positions", table))
            for index, layer in enumerate(stack.layers):
                _layer(weights, f"{name}.layers.{index}", layer)
            final = nn.LayerNorm(spec.d_model, spec.norm_eps)
            _copy(weights, f"{name}.norm", final)
            last = stack.layers[-1]
            last.final_layer_norm = nn.Sequential(last.final_layer_norm, final)
        model.lm_head.weight.copy_(weights["output.weight"])
        model.final_logits_bias.copy_(weights["output.bias"])
    return model


def _layer(weights: dict[str, Tensor], name: str, layer: Any) -> None:
    attentions = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
    for ours, theirs in attentions.items():
        attention = getattr(layer, theirs, None)
        if attention is None:
            continue
        for part, projection in _PARTS.items():
            _copy(weights, f"{name}.{ours}.{part}", getattr(attention, projection))
        _copy(weights, f"{name}.{ours}_norm", getattr(layer, f"{theirs}_layer_norm"))
    _copy(weights, f"{name}.feed_forward.inner", layer.fc1)
    _copy(weights, f"{name}.feed_forward.outer", layer.fc2)
    _copy(weights, f"{name}.feed_forward_norm", layer.final_layer_norm)


def _copy(weights: dict[str, Tensor], name: str, module: Any) -> None:
    module.weight.copy_(weights[f"{name}.weight"])
    module.bias.copy_(weights[f"{name}.bias"])
