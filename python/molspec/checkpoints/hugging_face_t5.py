"""T5 of transformers (Raffel et al. 2020; T5Chem, ReactionT5), v1.0 and v1.1, and UMT5.

Pre-norm with RMS norms, no biases, attention that is not scaled, and relative positions: a bias by
distance, learned in the first layer of a stack and used in all of them, or in every layer of UMT5.
Version 1.0 multiplies the decoder's output by d_model ** -0.5 before the output layer; here the
final norm's weights include that factor.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from molspec.checkpoints.checkpoint import CheckpointError
from molspec.checkpoints.names import Rules, first, lacking, matrix, take
from molspec.model.spec import Activation, ModelSpec

#: `feed_forward_proj`: the activation, and whether it is gated. A gated "gelu" is gelu_new.
_FEED_FORWARDS: dict[str, tuple[Activation, bool]] = {
    "relu": ("relu", False),
    "gelu": ("gelu", False),
    "gated-relu": ("relu", True),
    "gated-gelu": ("gelu_tanh", True),
    "gated-silu": ("silu", True),
}
#: Of each `model_type`, if a config does not say it.
_FEED_FORWARD = {"t5": "relu", "umt5": "gated-gelu"}
MODEL_TYPES = tuple(_FEED_FORWARD)
_NEEDED = ("d_model", "d_kv", "d_ff", "num_layers", "num_heads", "pad_token_id")
_NAMES: Rules = (
    (r"^(encoder|decoder)\.norm\.", r"\1.final_layer_norm."),
    (r"(layers\.\d+)\.relative_bias", r"\1.self_attention.relative_attention_bias.weight"),
    (r"\.relative_bias", ".layers.0.self_attention.relative_attention_bias.weight"),
    (r"self_attention\.", "layer.0.SelfAttention."),
    (r"cross_attention\.", "layer.1.EncDecAttention."),
    (r"Attention\.(q)uery\.|Attention\.(k)ey\.|Attention\.(v)alue\.", r"Attention.\1\2\3."),
    (r"Attention\.output\.", "Attention.o."),
    (r"self_attention_norm", "layer.0.layer_norm"),
    (r"cross_attention_norm", "layer.1.layer_norm"),
    (r"^(encoder.*)feed_forward", r"\1layer.1.feed_forward"),
    (r"^(decoder.*)feed_forward", r"\1layer.2.feed_forward"),
    (r"feed_forward_norm", "layer_norm"),
    (r"feed_forward\.gate\.", "DenseReluDense.wi_0."),
    (r"feed_forward\.outer\.", "DenseReluDense.wo."),
    (r"\.layers\.", ".block."),
)
#: Relative positions have no maximum, and most configs none of sources and targets.
_MAX_POSITIONS = 512
_LAST_NORM = "decoder.final_layer_norm.weight"


def convert(
    config: Mapping[str, Any], state: Mapping[str, Tensor]
) -> tuple[ModelSpec, dict[str, Tensor]]:
    """Convert a T5, its config and its state dict, to molspec's spec and weights.

    Raises CheckpointError, naming a missing weight or the feature that the engine lacks.
    """
    config = {"feed_forward_proj": _FEED_FORWARD[config["model_type"]], **config}
    _check(config)
    # Old files have unused biases of cross-attention.
    ours = {
        key: value
        for key, value in state.items()
        if re.search(r"\.block\.|final_layer_norm", key)
        and not key.endswith("EncDecAttention.relative_attention_bias.weight")
    }
    ours["source_embedding"] = matrix(state, "encoder.embed_tokens.weight", "shared.weight")
    ours["target_embedding"] = matrix(state, "decoder.embed_tokens.weight", "shared.weight")
    output = state.get("lm_head.weight", ours["target_embedding"])
    tied = torch.equal(output, ours["target_embedding"])
    if not tied:
        ours["output.weight"] = output
    if config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True)):
        norm = first(state, _LAST_NORM)
        wide = torch.promote_types(norm.dtype, torch.float32)
        ours[_LAST_NORM] = norm.to(wide) * config["d_model"] ** -0.5
    spec = _spec(config, ours, tied)
    inner = (r"feed_forward\.inner\.", f"DenseReluDense.wi{'_1' if spec.gated else ''}.")
    return spec, take(ours, spec, (*_NAMES, inner))


def _check(config: Mapping[str, Any]) -> None:
    if missing := [key for key in _NEEDED if not isinstance(config.get(key), int)]:
        raise CheckpointError(f"config.json lacks {', '.join(missing)}")
    if config["d_model"] < 1:
        raise CheckpointError(f"d_model is {config['d_model']}: expected at least 1")
    feed_forward = str(config["feed_forward_proj"])
    if feed_forward not in _FEED_FORWARDS:
        raise lacking(f"feed_forward_proj {feed_forward!r}")


def _spec(config: Mapping[str, Any], ours: Mapping[str, Tensor], tied: bool) -> ModelSpec:
    source, target = ours["source_embedding"], ours["target_embedding"]
    activation, gated = _FEED_FORWARDS[config["feed_forward_proj"]]
    start_id = config.get("decoder_start_token_id")
    return ModelSpec(
        source_vocab_size=len(source),
        target_vocab_size=len(target),
        d_model=config["d_model"],
        head_count=config["num_heads"],
        encoder_layers=config["num_layers"],
        decoder_layers=config.get("num_decoder_layers") or config["num_layers"],
        feed_forward=config["d_ff"],
        attention_width=config["num_heads"] * config["d_kv"],
        max_positions=config.get("n_positions") or _MAX_POSITIONS,
        norm="pre",
        norm_kind="rms",
        norm_eps=config.get("layer_norm_epsilon", 1e-6),
        positions="relative",
        relative_per_layer=config["model_type"] == "umt5",
        relative_buckets=config.get("relative_attention_num_buckets", 32),
        relative_max_distance=config.get("relative_attention_max_distance", 128),
        scale_attention=False,
        biases=False,
        activation=activation,
        gated=gated,
        shared_embedding=torch.equal(source, target),
        tied_output=tied,
        output_bias=False,
        source_bos=False,
        start_id=config["pad_token_id"] if start_id is None else start_id,
    )
