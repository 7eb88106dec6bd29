"""The vocabulary of a Hugging Face folder, where its tokens are those of SMILES.

tokenizer.json of whole words, vocab.json without merges, or vocab.txt. Merged or learned pieces
(BPE, SentencePiece, WordPiece) are refused: who splits by atoms would feed the model other tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molspec.checkpoints.checkpoint import CheckpointError
from molspec.checkpoints.json_file import read_object
from molspec.text import Vocabulary

#: Whether the source is wrapped in BOS and in EOS.
Wrapping = tuple[bool, bool]

_PIECES = ("source.spm", "sentencepiece.bpe.model", "spiece.model", "merges.txt")


def read_vocabulary(
    folder: Path, config: Mapping[str, Any], size: int
) -> tuple[Vocabulary, Wrapping | None]:
    """Read the vocabulary, and how the tokenizer wraps sources where the folder tells it.

    Rows of the embedding without a token get a name that no SMILES has. Raises CheckpointError.
    """
    ids, wrapping = _token_ids(folder)
    names = {index: token for token, index in ids.items()}
    tokens = tuple(names.get(index, f"<unused {index}>") for index in range(size))
    pad_id, bos_id, eos_id = (config.get(f"{name}_token_id") for name in ("pad", "bos", "eos"))
    if not isinstance(pad_id, int) or not isinstance(eos_id, int):
        raise CheckpointError("config.json lacks pad_token_id or eos_token_id")
    if bos_id in (pad_id, eos_id):
        bos_id = None
    unknown = next((names[i] for i in names if names[i].strip("<[]>").lower() == "unk"), None)
    unk_id = None if unknown is None else ids[unknown]
    return Vocabulary(tokens, pad_id, bos_id, eos_id, unk_id), wrapping


def _token_ids(folder: Path) -> tuple[dict[str, int], Wrapping | None]:
    if (folder / "tokenizer.json").is_file():
        return _from_tokenizer(read_object(folder / "tokenizer.json"))
    if pieces := [name for name in _PIECES if (folder / name).is_file()]:
        raise _not_atomwise(pieces[0])
    if (folder / "vocab.json").is_file():
        return _checked(read_object(folder / "vocab.json")), None
    if (folder / "vocab.txt").is_file():
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        tokens = [line for line in lines if line]
        if any(token.startswith("##") for token in tokens):
            raise _not_atomwise("vocab.txt has pieces of words")
        return {token: index for index, token in enumerate(tokens)}, None
    raise CheckpointError("no tokenizer.json, vocab.json or vocab.txt in it")


def _from_tokenizer(tokenizer: Mapping[str, Any]) -> tuple[dict[str, int], Wrapping]:
    model = tokenizer.get("model", {})
    kind = model.get("type")
    if kind != "WordLevel" and not (kind == "BPE" and not model.get("merges")):
        raise _not_atomwise(f"tokenizer.json is {kind}")
    ids = _checked(model.get("vocab", {}))
    for added in tokenizer.get("added_tokens", ()):
        ids.setdefault(added["content"], added["id"])
    return ids, _wrapping(tokenizer.get("post_processor"))


def _wrapping(processor: Mapping[str, Any] | None) -> Wrapping:
    """Whether a tokenizer puts special tokens before and behind a text."""
    if processor is None:
        return False, False
    if processor.get("type") in ("RobertaProcessing", "BertProcessing"):
        return True, True
    if processor.get("type") == "TemplateProcessing":
        kinds = [next(iter(item)) for item in processor.get("single", ())]
        return kinds[:1] == ["SpecialToken"], kinds[-1:] == ["SpecialToken"]
    raise CheckpointError(f"tokenizer.json has a post_processor {processor.get('type')!r}")


def _checked(values: Mapping[str, Any]) -> dict[str, int]:
    if not values or not all(isinstance(index, int) for index in values.values()):
        raise CheckpointError("the vocabulary is no object of tokens and their ids")
    return dict(values)


def _not_atomwise(found: str) -> CheckpointError:
    return CheckpointError(
        f"{found}: expected a vocabulary of SMILES tokens; molspec.decode and molspec.compile take "
        "the model itself and token ids"
    )
