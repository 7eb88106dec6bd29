"""Other libraries' names of weights: from the names of a ModelSpec to the keys of a state dict."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch

from molspec.checkpoints.checkpoint import CheckpointError, check_weights
from molspec.model.foreign import check_own
from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary

ValueT = TypeVar("ValueT")
#: Parts of names for modules that torch.compile and sharded training put around others.
_WRAPPERS = re.compile(r"(?<![^.])_(orig_mod|fsdp_wrapped_module|checkpoint_wrapped_module)\.")
#: The beginning of all names of a model within torch's DataParallel or DistributedDataParallel.
_PARALLEL = "module."
#: Pattern and replacement, as re.sub takes them; each is applied, in this order.
Rules = Sequence[tuple[str, str]]

#: The layers of torch.nn.Transformer.
TORCH_LAYERS: Rules = (
    (r"self_attention\.", "self_attn."),
    (r"cross_attention\.", "multihead_attn."),
    (r"(query|key|value)\.", "in_proj_"),
    (r"attn\.output\.", "attn.out_proj."),
    (r"feed_forward\.inner\.", "linear1."),
    (r"feed_forward\.outer\.", "linear2."),
    (r"self_attention_norm\.", "norm1."),
    (r"cross_attention_norm\.", "norm2."),
    (r"^(encoder.*)feed_forward_norm\.", r"\1norm2."),
    (r"^(decoder.*)feed_forward_norm\.", r"\1norm3."),
)
#: torch stacks the projections of an attention in this order.
_STACKED, _PARTS = "in_proj_", ("query", "key", "value")


def unwrapped(state: Mapping[str, ValueT]) -> dict[str, ValueT]:
    """Name the weights of a state dict as the model itself does, without torch's wrappers of it."""
    names = [_WRAPPERS.sub("", str(key)) for key in state]
    check_own(names)
    if all(name.startswith(_PARALLEL) for name in names):
        names = [name.removeprefix(_PARALLEL) for name in names]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise CheckpointError(f"weight {twice[0]} is there twice, with and without a wrapper")
    return dict(zip(names, state.values(), strict=True))


def take(
    state: Mapping[str, Any], spec: ModelSpec, rules: Rules, absent: str | None = None
) -> dict[str, torch.Tensor]:
    """Take the weights of `spec` from a state dict that names them by `rules`.

    The state may have a shared embedding twice, and nothing else; keys that match `absent` may be
    missing, which means zeros. Raises CheckpointError, naming the key, if one is missing,
    unexpected or of another shape.
    """
    keys = {name: _key(name, rules) for name in spec.weight_shapes()}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, (rows, *columns) in spec.weight_shapes().items():
        shapes[keys[name]] = (len(_PARTS) * rows if _STACKED in keys[name] else rows, *columns)
    kept = dict(state)
    if spec.shared_embedding:
        kept.pop(_key("target_embedding", rules), None)
    for key, shape in shapes.items():
        if key not in kept and absent is not None and re.search(absent, key):
            kept[key] = torch.zeros(shape, dtype=torch.float32, device="cpu")
    check_weights(kept, shapes)
    return {name: _part(kept[key], name, key) for name, key in keys.items()}


def first(state: Mapping[str, Any], *keys: str) -> torch.Tensor:
    """Return the value of the first of `keys` that exists. Raises CheckpointError if none does."""
    for key in keys:
        if isinstance(found := state.get(key), torch.Tensor):
            return found
    raise CheckpointError(f"missing weights: {' or '.join(keys)}")


def matrix(state: Mapping[str, Any], *keys: str) -> torch.Tensor:
    """The same. Raises CheckpointError if it is not a matrix."""
    found = first(state, *keys)
    if found.dim() != 2 or 0 in found.shape:
        raise CheckpointError(
            f"{' or '.join(keys)} has shape {tuple(found.shape)}: expected a matrix"
        )
    return found


def vocabulary_of(tokens: Sequence[str], special: Mapping[str, str], where: str) -> Vocabulary:
    """Make the vocabulary of tokens. `special` has the tokens of its special ids, such as pad_id.

    Raises CheckpointError, naming the file or part `where`, if one is missing.
    """
    if missing := [token for token in special.values() if token not in tokens]:
        raise CheckpointError(f"{where} lacks the special tokens {', '.join(missing)}")
    return Vocabulary(tuple(tokens), **{key: tokens.index(token) for key, token in special.items()})


def lacking(feature: str) -> CheckpointError:
    """The error of a model with a feature that the engine does not have."""
    cure = "molspec.decode takes the model itself"
    return CheckpointError(f"the engine does not have {feature}; {cure}")


def _key(name: str, rules: Rules) -> str:
    for pattern, replacement in rules:
        name = re.sub(pattern, replacement, name)
    return name


def _part(stored: torch.Tensor, name: str, key: str) -> torch.Tensor:
    if _STACKED not in key:
        return stored
    part = name.split(".")[-2]
    # A copy: parts of one tensor share their memory, which safetensors does not write.
    return stored.chunk(len(_PARTS))[_PARTS.index(part)].clone()
