"""Checkpoints of OpenNMT-py: 0.4.1 (the original Molecular Transformer), 1.x, 2.x and 3.x.

A .pt file of torch.save with `model`, `generator`, `vocab` and `opt`. All are pre-norm with a final
norm, scale embeddings by sqrt(d_model) and read sources without BOS and EOS. Up to 0.4.1, a norm
divides by the unbiased standard deviation plus eps, and its parameters are a_2 and b_2. In 3.x,
norms may be RMS norms and feed-forward layers gated: "silu" means that too. Positions may be
rotary; without added ones embeddings are not scaled.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from molspec.checkpoints import files, inert_pickle
from molspec.checkpoints.checkpoint import Checkpoint, CheckpointError
from molspec.checkpoints.names import Rules, lacking, matrix, take, unwrapped, vocabulary_of
from molspec.model.positions import pairs_apart, rotations
from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary

LOOKS_FOR = "an OpenNMT-py .pt file, or a folder with one"

_EMBEDDING = "{}.embeddings.make_embedding.emb_luts.0.weight"
_POSITIONS = {
    "encoder.embeddings.make_embedding.pe.pe": "source_positions",
    "decoder.embeddings.make_embedding.pe.pe": "target_positions",
}
_SPECIAL_TOKENS = {"pad_id": "<blank>", "bos_id": "<s>", "eos_id": "</s>", "unk_id": "<unk>"}
#: Rows that are used of the position tables, which have 5000.
_MAX_POSITIONS = 1024

_NAMES: Rules = (
    (r"^source_embedding", _EMBEDDING.format("encoder")),
    (r"^target_embedding", _EMBEDDING.format("decoder")),
    (r"^(encoder|decoder)\.norm\.", r"\1.layer_norm."),
    (r"^(encoder.*)self_attention_norm", r"\1layer_norm"),
    (r"^(decoder.*)self_attention_norm", r"\1layer_norm_1"),
    (r"cross_attention_norm", "layer_norm_2"),
    (r"feed_forward_norm", "feed_forward.layer_norm"),
    (r"^encoder\.layers", "encoder.transformer"),
    (r"^decoder\.layers", "decoder.transformer_layers"),
    (r"self_attention\.", "self_attn."),
    (r"cross_attention\.", "context_attn."),
    (r"attn\.query\.", "attn.linear_query."),
    (r"attn\.(key|value)\.", r"attn.linear_\1s."),
    (r"attn\.output\.", "attn.final_linear."),
    (r"feed_forward\.gate\.", "feed_forward.w_1."),
    (r"feed_forward\.outer\.", "feed_forward.w_2."),
)
#: Biases that 3.x may leave out.
_BIASES = r"(linear_\w+|final_linear|w_[123])\.bias$"

#: Bias of a token that the target lacks: its probability is 0 in every type.
_NEVER = -1e4

#: `max_relative_positions` of rotary positions.
_ROTARY = -1
#: Options and the values that the engine supports; a missing option has the first.
_OPTIONS: dict[str, tuple[object, ...]] = {
    "encoder_type": ("transformer",),
    "decoder_type": ("transformer",),
    "position_encoding": (True, False),
    "self_attn_type": ("scaled-dot", "scaled-dot-flash"),
    "max_relative_positions": (0, _ROTARY),
    "relative_positions_buckets": (0,),
    "layer_norm": ("standard", "rms"),
    "parallel_residual": (False,),
    "num_kv": (0,),
    "num_experts": (0,),
    "sliding_window": (0,),
    "copy_attn": (False,),
    "generator_function": ("softmax", "log_softmax"),
    "lora_layers": ([],),
    "quant_layers": ([],),
}


def recognises(path: Path) -> bool:
    """Whether `path` is such a file or a folder with at least one."""
    return path.suffix == ".pt" or any(path.glob("*.pt"))


def read(path: Path) -> Checkpoint:
    """Read the file `path`, or the only one in the folder `path`. Raises ValueError or OSError."""
    stored = inert_pickle.load(files.only_file(path, "*.pt"))
    parts = ("model", "generator", "vocab", "opt")
    if not isinstance(stored, Mapping) or any(not stored.get(part) for part in parts):
        raise CheckpointError(f"not an OpenNMT-py checkpoint: expected {', '.join(parts)} in it")
    options = vars(stored["opt"]) if isinstance(stored["opt"], inert_pickle.Inert) else {}
    state = _state(stored["model"], stored["generator"])
    _check_options(options, state)
    source, target = (_tokens(stored["vocab"], side) for side in ("src", "tgt"))
    spec = _spec(options, state, source == target)
    if any(key.endswith(".a_2") for key in stored["model"]):
        spec = replace(spec, norm_kind="std")
    if spec.rotary_columns is not None:
        theta = float(options.get("rotary_theta", 1e4))
        state["rotary"] = rotations(spec.max_positions, spec.rotary_columns, theta)
    inner = (r"feed_forward\.inner\.", f"feed_forward.w_{3 if spec.gated else 1}.")
    weights = take(state, spec, (*_NAMES, inner), absent=_BIASES)
    if spec.rotary_columns is not None and options.get("rotary_interleave", True):
        for name in weights:
            if re.search(r"self_attention\.(query|key)\.", name):
                weights[name] = pairs_apart(weights[name], spec.head_count)
    if source != target:
        spec, weights, target = _merged(spec, weights, source, target)
    return Checkpoint(spec, weights, _vocabulary(target, stored["vocab"]))


def _state(model: Mapping[str, Any], generator: Mapping[str, Any]) -> dict[str, Tensor]:
    """One state dict, named as in 3.x, position tables as molspec has them."""
    state: dict[str, Tensor] = {}
    heads = ((f"output.{key}", value) for key, value in unwrapped(generator).items())
    for key, value in [*unwrapped(model).items(), *heads]:
        if not isinstance(value, Tensor):
            raise CheckpointError(f"{key} is a {type(value).__name__}: expected a tensor")
        if key in _POSITIONS:
            state[_POSITIONS[key]] = value[:_MAX_POSITIONS, 0].clone()
        elif not key.endswith(".mask"):  # a buffer of old decoders
            key = key.replace(".a_2", ".weight").replace(".b_2", ".bias")
            state[key.replace("output.0.", "output.")] = value
    return state


def _check_options(options: Mapping[str, Any], state: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError, naming an option that the engine lacks."""
    found = [
        f"{name} {options[name]!r}"
        for name, known in _OPTIONS.items()
        if options.get(name, known[0]) not in known
    ]
    if any("emb_luts.1." in key for key in state):
        found.append("source features")
    if found:
        raise lacking(", ".join(found))


def _spec(
    options: Mapping[str, Any], state: Mapping[str, Tensor], shares_vocabulary: bool
) -> ModelSpec:
    source, target = (matrix(state, _EMBEDDING.format(side)) for side in ("encoder", "decoder"))
    heads = options.get("heads")
    if heads is None:
        raise CheckpointError("opt lacks heads")
    added = options.get("position_encoding", True)
    has_table = "source_positions" in state
    rotates = options.get("max_relative_positions") == _ROTARY
    return ModelSpec(
        source_vocab_size=len(source),
        target_vocab_size=len(target),
        d_model=source.shape[1],
        head_count=heads,
        encoder_layers=_layer_count(state, "encoder.transformer"),
        decoder_layers=_layer_count(state, "decoder.transformer_layers"),
        feed_forward=len(matrix(state, "encoder.transformer.0.feed_forward.w_1.weight")),
        max_positions=_MAX_POSITIONS,
        norm="pre",
        norm_kind="rms" if options.get("layer_norm") == "rms" else "layer",
        norm_eps=float(options.get("norm_eps", 1e-6)),
        positions="none" if not added else "learned" if has_table else "sinusoidal",
        rotary_columns=options.get("rotary_dim") or source.shape[1] // heads if rotates else None,
        scale_embedding=added,
        activation=options.get("pos_ffn_activation_fn", "relu").removeprefix("gated-"),
        gated=any(".w_3." in key for key in state),
        shared_embedding=shares_vocabulary and torch.equal(source, target),
        output_bias="output.bias" in state,
        source_bos=False,
        source_eos=False,
    )


def _layer_count(state: Mapping[str, Tensor], stack: str) -> int:
    found = [re.match(rf"{re.escape(stack)}\.(\d+)\.", key) for key in state]
    return max((int(match[1]) + 1 for match in found if match), default=0)


def _tokens(vocabularies: Any, side: str) -> tuple[str, ...]:
    """Tokens of a side: a list (3.x), or within torchtext's Field (1.x, 2.x) or Vocab (0.4.1)."""
    if isinstance(vocabularies, inert_pickle.Inert):
        vocabularies = vocabularies.mapping
    found = dict(vocabularies).get(side)
    fields = getattr(found, "fields", found)
    if isinstance(fields, list) and fields and isinstance(fields[0], tuple):
        found = fields[0][1]
    found = getattr(found, "vocab", found)
    tokens = getattr(found, "itos", found)
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise CheckpointError(f"vocab has no list of tokens for {side!r}")
    return tuple(tokens)


def _merged(
    spec: ModelSpec, weights: Mapping[str, Tensor], source: Sequence[str], target: Sequence[str]
) -> tuple[ModelSpec, dict[str, Tensor], tuple[str, ...]]:
    """Merge a model's two vocabularies: the target's tokens, then those that only the source has.

    Answers and log-probabilities do not change. A source token that only the target has is read as
    the unknown one, as in the model's own program.
    """
    known = set(target)
    tokens = (*target, *(token for token in source if token not in known))
    source_ids = {token: index for index, token in enumerate(source)}
    unknown = source_ids[_SPECIAL_TOKENS["unk_id"]]
    rows = [source_ids.get(token, unknown) for token in tokens]
    more = len(tokens) - len(target)
    target_embedding = weights["target_embedding"]
    output = target_embedding if spec.tied_output else weights["output.weight"]
    bias = weights["output.bias"] if spec.output_bias else output.new_zeros(len(target))
    merged = {
        **weights,
        "source_embedding": weights["source_embedding"][torch.tensor(rows, device="cpu")],
        "target_embedding": F.pad(target_embedding, (0, 0, 0, more)),
        "output.weight": F.pad(output, (0, 0, 0, more)),
        "output.bias": F.pad(bias, (0, more), value=_NEVER),
    }
    merged_spec = replace(
        spec,
        source_vocab_size=len(tokens),
        target_vocab_size=len(tokens),
        tied_output=False,
        output_bias=True,
    )
    return merged_spec, merged, tokens


def _vocabulary(tokens: Sequence[str], vocabularies: Any) -> Vocabulary:
    special = dict(_SPECIAL_TOKENS)
    if isinstance(vocabularies, Mapping):
        special["bos_id"] = vocabularies.get("decoder_start_token", special["bos_id"])
    return vocabulary_of(tokens, special, "vocab")
