"""Folders of Hugging Face transformers: BART, Marian, T5 and UMT5.

config.json describes the model; the weights are model.safetensors or pytorch_model.bin, or in their
parts; `hugging_face_vocabulary` and `t5chem` read the tokens, `hugging_face_t5` the
weights of T5.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from molspec.checkpoints import hugging_face_t5, inert_pickle, names, t5chem
from molspec.checkpoints.checkpoint import Checkpoint, CheckpointError
from molspec.checkpoints.files import load_parts, load_weights, read_object, weight_files
from molspec.checkpoints.hugging_face_vocabulary import read_vocabulary
from molspec.engine.torch.generation import warn_of_processors, with_generation
from molspec.model.spec import MOST_POSITIONS, Activation, ModelSpec
from molspec.model.transformer import first_token

LOOKS_FOR = "a Hugging Face folder with config.json and weights"

_CONFIG = "config.json"
_GENERATION = "generation_config.json"
_WEIGHTS = "model.safetensors"
_BINARY = "pytorch_model.bin"
_ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
#: The differences between BART and Marian, as fields of ModelSpec.
_KINDS: dict[str, dict[str, Any]] = {
    "bart": {"embedding_norm": True},
    "marian": {"source_bos": False},
}
_NEEDED = (
    *("d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads"),
    *("encoder_ffn_dim", "max_position_embeddings", "decoder_start_token_id"),
)
_NAMES: names.Rules = (
    (r"embedding_norm", "layernorm_embedding"),
    (r"self_attention_norm", "self_attn_layer_norm"),
    (r"cross_attention_norm", "encoder_attn_layer_norm"),
    (r"feed_forward_norm", "final_layer_norm"),
    (r"self_attention\.", "self_attn."),
    (r"cross_attention\.", "encoder_attn."),
    (r"attn\.(q)uery\.|attn\.(k)ey\.|attn\.(v)alue\.", r"attn.\1\2\3_proj."),
    (r"attn\.output\.", "attn.out_proj."),
    (r"feed_forward\.inner\.", "fc1."),
    (r"feed_forward\.outer\.", "fc2."),
    (r"^(encoder|decoder)\.", r"model.\1."),
)


def recognises(path: Path) -> bool:
    """Whether `path` is a folder whose config.json names a kind of model."""
    try:
        return "model_type" in read_object(path / _CONFIG)
    except (OSError, CheckpointError):
        return False


def read(path: Path) -> Checkpoint:
    """Read the folder `path`. Raises ValueError or OSError."""
    config = read_object(path / _CONFIG)
    generation = path / _GENERATION  # older folders have its settings in config.json
    settings = read_object(generation) if generation.is_file() else {}
    config = with_generation(config, settings, "molspec", 5)
    if config.get("quantization_config"):
        raise CheckpointError(f"{_CONFIG} has quantization_config: expected the model before it")
    # The vocabulary first: models of T5Chem's other tasks have other weights.
    chemical = t5chem.read_vocabulary(path, config) if t5chem.recognises(config) else None
    spec, weights = _convert(config, _read_state(path))
    warn_of_processors({**config, **settings}, "molspec", 5)
    if chemical is not None:
        characters, task, template = chemical
        spec = replace(spec, source_eos=False)
        return Checkpoint(spec, weights, characters, task=task, template=template)
    vocabulary, wrapping = read_vocabulary(path, config, spec.target_vocab_size)
    if wrapping is not None:
        spec = replace(spec, source_bos=wrapping[0], source_eos=wrapping[1])
    # Labels are wrapped as sources are, behind the decoder's start; two BOS only the weights tell.
    target_bos = spec.source_bos
    if target_bos and spec.start_id == vocabulary.bos_id:
        target_bos = first_token(spec, weights, vocabulary.eos_id) == vocabulary.bos_id
    return Checkpoint(replace(spec, target_bos=target_bos), weights, vocabulary)


def _read_state(folder: Path) -> dict[str, Tensor]:
    # In the order of transformers, which may leave an older file beside a newer one.
    if files := weight_files(folder, _WEIGHTS):
        return names.unwrapped(load_parts(files, load_weights))
    if files := weight_files(folder, _BINARY):
        return names.unwrapped(load_parts(files, inert_pickle.load))
    raise CheckpointError(f"no {_WEIGHTS} and no {_BINARY} in it")


def _convert(
    config: Mapping[str, Any], state: Mapping[str, Tensor]
) -> tuple[ModelSpec, dict[str, Tensor]]:
    """Convert a config and a state dict of transformers to molspec's spec and weights.

    Raises CheckpointError, naming the feature that the engine lacks.
    """
    if config.get("model_type") in hugging_face_t5.MODEL_TYPES:
        return hugging_face_t5.convert(config, state)
    _check(config)
    ours = {  # layers have the same names
        key: value for key, value in state.items() if re.search(r"\.layers\.|layernorm_emb", key)
    }
    shared = "model.shared.weight"
    ours["source_embedding"] = names.matrix(state, "model.encoder.embed_tokens.weight", shared)
    ours["target_embedding"] = names.matrix(state, "model.decoder.embed_tokens.weight", shared)
    ours["source_positions"] = _positions(config, state, "encoder")
    ours["target_positions"] = _positions(config, state, "decoder")
    tied = config.get("tie_word_embeddings", True)
    if not tied:
        ours["output.weight"] = names.first(state, "lm_head.weight")
    if "final_logits_bias" in state:
        ours["output.bias"] = state["final_logits_bias"].flatten()
    spec = _spec(config, ours, tied)
    return spec, names.take(ours, spec, _NAMES)


def _check(config: Mapping[str, Any]) -> None:
    kind = config.get("model_type")
    found = []
    if str(kind) not in _KINDS:
        found.append(
            f"model_type {kind!r} (only {', '.join((*_KINDS, *hugging_face_t5.MODEL_TYPES))})"
        )
    elif str(config.get("activation_function")) not in _ACTIVATIONS:
        found.append(f"activation_function {config.get('activation_function')!r}")
    for size in ("attention_heads", "ffn_dim"):
        sides = [config.get(f"{side}_{size}") for side in ("encoder", "decoder")]
        if str(kind) in _KINDS and sides[0] != sides[1]:
            found.append(f"encoder_{size} {sides[0]} beside decoder_{size} {sides[1]}")
    missing = [key for key in _NEEDED if not isinstance(config.get(key), int)]
    if missing and not found:
        raise CheckpointError(f"config.json lacks {', '.join(missing)}")
    if found:
        raise names.lacking(", ".join(found))


def _spec(config: Mapping[str, Any], ours: Mapping[str, Tensor], tied: bool) -> ModelSpec:
    source, target = ours["source_embedding"], ours["target_embedding"]
    return ModelSpec(
        source_vocab_size=len(source),
        target_vocab_size=len(target),
        d_model=source.shape[1],
        head_count=config["encoder_attention_heads"],
        encoder_layers=config["encoder_layers"],
        decoder_layers=config["decoder_layers"],
        feed_forward=config["encoder_ffn_dim"],
        max_positions=len(ours["source_positions"]),
        final_norm=False,
        positions="learned",
        scale_embedding=config.get("scale_embedding", False),
        activation=_ACTIVATIONS[config["activation_function"]],
        shared_embedding=torch.equal(source, target),
        tied_output=tied,
        output_bias="output.bias" in ours,
        start_id=config["decoder_start_token_id"],
        **_KINDS[config["model_type"]],
    )


def _positions(config: Mapping[str, Any], state: Mapping[str, Tensor], stack: str) -> Tensor:
    table = state.get(f"model.{stack}.embed_positions.weight")
    if config["model_type"] == "bart":
        # BART's learned table begins with two rows that no position uses.
        return names.first(state, f"model.{stack}.embed_positions.weight")[2:].clone()
    if table is not None:
        return table.clone()
    count = config["max_position_embeddings"]
    if not 1 <= count <= MOST_POSITIONS:
        raise CheckpointError(f"max_position_embeddings is {count}: expected 1 to {MOST_POSITIONS}")
    embedding = names.matrix(state, "model.encoder.embed_tokens.weight", "model.shared.weight")
    return _half_and_half(count, embedding.shape[1])


def _half_and_half(length: int, d_model: int) -> Tensor:
    """Marian's sinusoids, which its files lack: sines in the first columns, then cosines."""
    columns = torch.arange(d_model, dtype=torch.float64, device="cpu")
    rates = 10000 ** (-2 * (columns // 2) / d_model)
    angles = torch.arange(length, dtype=torch.float64, device="cpu")[:, None] * rates
    return torch.cat((angles[:, 0::2].sin(), angles[:, 1::2].cos()), dim=1).float()
