"""The vocabulary of T5Chem (Lu and Zhang 2022), in a Hugging Face folder of its trainer.

config.json names the task and the tokenizer. The vocabulary is vocab.txt, or vocab.pt of torchtext
(before version 1.2). The tokenizer adds nine extra tokens and then the tasks' prefixes to it.
Sources and targets have no EOS: the model writes PAD after a target, so that is EOS here.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from molspec.checkpoints.checkpoint import CheckpointError
from molspec.checkpoints.inert_pickle import load
from molspec.common.task import Task
from molspec.text import PieceVocabulary

_EXTRA = tuple(f"<extra_token_{index}>" for index in range(9))
_PREFIXES = ("Yield:", "Product:", "Fill-Mask:", "Classification:", "Reagents:", "Reactants:")
_SPECIAL = ("<s>", "</s>", "<unk>", "<pad>", "<mask>")
#: Patterns of the tokens: of characters, and of atoms and signs.
_PATTERNS = {"simple": ".", "atom": r"\[[^\]]+]|Br?|Cl?|%[0-9]{2}|."}
#: Of each task that writes SMILES: molspec's task, and the template of its sources. Sources of the
#: others have more than the molecules of one side.
_TASKS: dict[str, tuple[Task | None, str | None]] = {
    "product": ("product", "Product:{}>>"),
    "reactants": ("retro", "Reactants:{}"),
    "reagents": (None, None),
    "mixed": (None, None),
    "pretrain": (None, None),
}


def recognises(config: Mapping[str, Any]) -> bool:
    """Whether a config is of T5Chem."""
    return config.get("model_type") == "t5" and {"task_type", "tokenizer"} <= config.keys()


def read_vocabulary(
    folder: Path, config: Mapping[str, Any]
) -> tuple[PieceVocabulary, Task | None, str | None]:
    """Read the vocabulary, the task and the template of sources. Raises ValueError."""
    kind, task = config["tokenizer"], config["task_type"]
    if kind not in _PATTERNS:
        raise CheckpointError(f"tokenizer is {kind!r}: expected {' or '.join(_PATTERNS)}")
    if task not in _TASKS:
        raise CheckpointError(
            f"task_type is {task!r}: expected one that writes SMILES: {', '.join(_TASKS)}"
        )
    tokens = [*_stored_tokens(folder), *_EXTRA, *_PREFIXES]
    special = {name: tokens.index(name) for name in _SPECIAL if name in tokens}
    size = config.get("vocab_size")
    fits = isinstance(size, int) and size >= len(tokens)
    if len(special) < len(_SPECIAL) or special["<pad>"] != config.get("pad_token_id") or not fits:
        raise CheckpointError(
            f"its vocabulary is not that of T5Chem 1.0 to 1.2: expected {', '.join(_SPECIAL)}, "
            "their ids in config.json, and a vocab_size of all tokens"
        )
    tokens += (f"<unused {index}>" for index in range(len(tokens), size or 0))
    vocabulary = PieceVocabulary(
        tuple(tokens),
        pad_id=special["</s>"],  # an id that no text has; nothing reads it
        bos_id=None,
        eos_id=special["<pad>"],
        unk_id=special["<unk>"],
        tokenizer=json.dumps(_tokenizer(tokens, kind)),
    )
    return vocabulary, *_TASKS[task]


def _stored_tokens(folder: Path) -> list[str]:
    text, pickled = folder / "vocab.txt", folder / "vocab.pt"
    if text.is_file():
        return [line.strip() for line in text.read_text(encoding="utf-8").splitlines()]
    tokens = getattr(load(pickled), "itos", None) if pickled.is_file() else []
    if not isinstance(tokens, list):
        raise CheckpointError("vocab.pt has no list of tokens")
    if not tokens:
        raise CheckpointError("no vocab.txt and no vocab.pt in it")
    return tokens


def _tokenizer(tokens: Sequence[str], kind: str) -> dict[str, Any]:
    """T5Chem's tokenizer as the tokenizers library reads it."""
    whole = [(tokens.index(name), name) for name in (*_SPECIAL, *_PREFIXES)]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    split = {"type": "Split", "pattern": {"Regex": _PATTERNS[kind]}, "behavior": "Isolated"}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": index, "content": name, "special": name in _SPECIAL, **flags}
            for index, name in sorted(whole)
        ],
        "normalizer": None,
        "pre_tokenizer": {**split, "invert": False},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {name: index for index, name in enumerate(tokens)},
            "unk_token": "<unk>",
        },
    }
