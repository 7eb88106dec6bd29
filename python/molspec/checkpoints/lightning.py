"""The Lightning checkpoints of Andronov et al. (J. Cheminform. 2025, s13321-025-00974-w).

`NAME.ckpt` has `state_dict` and `hyper_parameters`; the vocabulary is beside it in `vocab.json`,
{id: token}. The model is the Molecular Transformer, with the defaults of ModelSpec.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from molspec.checkpoints import files, inert_pickle, names
from molspec.checkpoints.checkpoint import Checkpoint, CheckpointError
from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary

LOOKS_FOR = "a Lightning .ckpt file, or a folder with one, and vocab.json beside it"

_VOCABULARY = "vocab.json"
_SPECIAL_TOKENS = {"pad_id": "<PAD>", "bos_id": "<BOS>", "eos_id": "<EOS>", "unk_id": "?"}
_SOURCE_EMBEDDING = "model.src_token_featurizer.embedding.weight"
_TARGET_EMBEDDING = "model.tgt_token_featurizer.embedding.weight"
#: Fields of ModelSpec -> arguments of the Lightning module.
_SIZES = {
    "d_model": "embedding_dim",
    "head_count": "num_heads",
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    "feed_forward": "feedforward_dim",
}

#: From a name of ModelSpec to one of the state dict: each is replaced, in this order.
_NAMES = (
    (r"^source_embedding", _SOURCE_EMBEDDING),
    (r"^target_embedding", _TARGET_EMBEDDING),
    (r"^output\.", "model.next_token_classifier."),
    *names.TORCH_LAYERS,
    (r"^(encoder|decoder)\.", r"model.transformer.\1."),
)


def recognises(path: Path) -> bool:
    """Whether `path` is such a file or a folder with at least one."""
    return path.suffix == ".ckpt" or any(path.glob("*.ckpt"))


def read(path: Path) -> Checkpoint:
    """Read the file `path`, or the only one in the folder `path`. Raises ValueError or OSError."""
    file = files.only_file(path, "*.ckpt")
    vocabulary = _read_vocabulary(file.with_name(_VOCABULARY))
    state, sizes = load_parts(file, "Lightning", _SIZES.values())
    spec = _spec(sizes, state)
    weights = names.take(state, spec, _NAMES)
    embeddings = (state[name] for name in (_SOURCE_EMBEDDING, _TARGET_EMBEDDING))
    if spec.shared_embedding and not torch.equal(*embeddings):
        raise CheckpointError("share_embeddings is true, but source and target embedding differ")
    return Checkpoint(spec, weights, vocabulary)


def load_parts(
    file: Path, kind: str, needed: Iterable[str]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The state dict and the hyper-parameters of a Lightning file.

    Raises CheckpointError, naming the `kind` of checkpoint, if one of them is absent, or if a
    `needed` hyper-parameter is.
    """
    stored = inert_pickle.load(file)
    for key in ("state_dict", "hyper_parameters"):
        if not isinstance(stored, Mapping) or not isinstance(stored.get(key), Mapping):
            raise CheckpointError(f"no {key} in it: not a {kind} checkpoint")
    state, sizes = stored["state_dict"], stored["hyper_parameters"]
    if missing := [key for key in dict.fromkeys(needed) if key not in sizes]:
        raise CheckpointError(f"hyper_parameters lack {', '.join(missing)}")
    return names.unwrapped(state), sizes


def _spec(sizes: Mapping[str, Any], state: Mapping[str, Any]) -> ModelSpec:
    """Combine the module's arguments with the vocabulary sizes, which only the embeddings have."""
    return ModelSpec(
        source_vocab_size=len(names.matrix(state, _SOURCE_EMBEDDING)),
        target_vocab_size=len(names.matrix(state, _TARGET_EMBEDDING)),
        activation=sizes.get("activation", "relu"),
        shared_embedding=sizes.get("share_embeddings", False),
        **{name: sizes[key] for name, key in _SIZES.items()},
    )


def _read_vocabulary(path: Path) -> Vocabulary:
    by_id = files.read_object(path)
    if set(by_id) != {str(index) for index in range(len(by_id))}:
        raise CheckpointError(f"{path.name}: expected the ids 0 to {len(by_id) - 1} as keys")
    tokens = tuple(by_id[str(index)] for index in range(len(by_id)))
    return names.vocabulary_of(tokens, _SPECIAL_TOKENS, path.name)
