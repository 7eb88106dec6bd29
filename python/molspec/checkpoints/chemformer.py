"""Checkpoints of Chemformer (Irwin et al., Mach. Learn.: Sci. Technol. 2022, 3, 015022).

`NAME.ckpt` is Lightning's, with the tokenizer as a Python object among its hyper-parameters; the
vocabulary is beside it, as JSON ({"properties": ..., "vocabulary": [...]}) or as text, a token
a line. The model is BART-like: pre-norm with final norms, sqrt(d_model) scaling, one embedding.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molspec.checkpoints import files, lightning
from molspec.checkpoints.checkpoint import Checkpoint, CheckpointError
from molspec.checkpoints.names import TORCH_LAYERS, Rules, matrix, take, vocabulary_of
from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary

LOOKS_FOR = (
    "a Chemformer .ckpt file, or a folder with one, and its vocabulary, *vocab*.json or .txt"
)

_SPECIAL_TOKENS = {"pad_id": "<PAD>", "bos_id": "^", "eos_id": "&", "unk_id": "?"}
#: Names of the special tokens in the vocabulary's properties.
_ROLES = {"pad_id": "pad", "bos_id": "start", "eos_id": "end", "unk_id": "unknown"}
#: Fields of ModelSpec -> arguments of the Lightning module.
_SIZES = {
    "head_count": "num_heads",
    "encoder_layers": "num_layers",
    "decoder_layers": "num_layers",
    "feed_forward": "d_feedforward",
    "activation": "activation",
}
_NAMES: Rules = ((r"^source_embedding", "emb.weight"), (r"^output\.", "token_fc."), *TORCH_LAYERS)


def recognises(path: Path) -> bool:
    """Whether `path` is such a file with its vocabulary beside it, or a folder with one."""
    folder = path if path.is_dir() else path.parent
    return lightning.recognises(path) and any(map(_is_vocabulary, folder.glob("*vocab*")))


def _is_vocabulary(file: Path) -> bool:
    if file.suffix == ".json":
        try:
            return "vocabulary" in files.read_object(file)
        except (OSError, CheckpointError):
            return False
    return file.suffix == ".txt"


def read(path: Path, vocabulary_file: Path | None = None) -> Checkpoint:
    """Read the file `path`, or the only one in the folder `path`. Raises ValueError or OSError.

    vocabulary_file: its vocabulary; by default the only one beside it.
    """
    folder = path if path.is_dir() else path.parent
    file = files.only_file(path, "*.ckpt")
    if vocabulary_file is None:
        vocabularies = [file for file in sorted(folder.glob("*vocab*")) if _is_vocabulary(file)]
        cure = "vocabularies; molspec convert --vocabulary names one"
        vocabulary_file = files.only(vocabularies, cure)
    vocabulary = _read_vocabulary(vocabulary_file)
    state, sizes = lightning.load_parts(file, "Chemformer", _SIZES.values())
    spec = _spec(state, sizes)
    positions = state["pos_emb"]
    named = {**state, "source_positions": positions, "target_positions": positions.clone()}
    del named["pos_emb"]
    return Checkpoint(spec, take(named, spec, _NAMES), vocabulary)


def _spec(state: Mapping[str, Any], sizes: Mapping[str, Any]) -> ModelSpec:
    vocab_size, d_model = matrix(state, "emb.weight").shape
    return ModelSpec(
        source_vocab_size=vocab_size,
        target_vocab_size=vocab_size,
        d_model=d_model,
        max_positions=len(matrix(state, "pos_emb")),
        norm="pre",
        positions="learned",
        scale_embedding=True,
        **{name: sizes[key] for name, key in _SIZES.items()},
    )


def _read_vocabulary(file: Path) -> Vocabulary:
    special = _SPECIAL_TOKENS
    if file.suffix == ".json":
        stored = files.read_object(file)
        if "vocabulary" not in stored:
            raise CheckpointError(f"{file.name}: expected an object with 'vocabulary'")
        tokens = stored["vocabulary"]
        named = stored.get("properties", {}).get("special_tokens", {})
        special = {key: named.get(_ROLES[key], token) for key, token in special.items()}
    else:
        tokens = [line for line in file.read_text(encoding="utf-8").split("\n") if line]
    return vocabulary_of(tokens, special, file.name)
