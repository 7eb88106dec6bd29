"""The vocabulary of a Hugging Face folder.

Tokens of SMILES: a tokenizer.json of whole words, vocab.json without merges, or vocab.txt. Learned
pieces (BPE, Unigram, WordPiece): a tokenizer.json, which the tokenizers library reads. In other
files they are refused, since splitting by atoms would give the model other tokens.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molspec.checkpoints.checkpoint import CheckpointError
from molspec.checkpoints.files import read_object
from molspec.text import PieceVocabulary, Vocabulary

#: Whether the source is wrapped in BOS and in EOS.
Wrapping = tuple[bool, bool]

_PIECES = ("source.spm", "sentencepiece.bpe.model", "spiece.model", "merges.txt")


def read_vocabulary(
    folder: Path, config: Mapping[str, Any], size: int
) -> tuple[Vocabulary, Wrapping | None]:
    """Read the vocabulary, and how the tokenizer wraps sources if the folder has that.

    Rows of the embedding without a token get a name that no SMILES has. Raises ValueError.
    """
    file = folder / "tokenizer.json"
    tokenizer = read_object(file) if file.is_file() else None
    ids = _ids_of_files(folder) if tokenizer is None else _ids_of_tokenizer(tokenizer)
    arguments = _tokens_and_special_ids(ids, config, size)
    if tokenizer is None:
        return Vocabulary(*arguments), None
    if _has_pieces(tokenizer):
        pieces = PieceVocabulary(*arguments, file.read_text(encoding="utf-8"))
        return pieces, _wrapping(pieces, *pieces.wrapping())
    vocabulary = Vocabulary(*arguments)
    return vocabulary, _wrapping(vocabulary, *_around(tokenizer.get("post_processor")))


def _tokens_and_special_ids(
    ids: Mapping[str, int], config: Mapping[str, Any], size: int
) -> tuple[tuple[str, ...], int, int | None, int, int | None]:
    names = {index: token for token, index in ids.items()}
    tokens = tuple(names.get(index, f"<unused {index}>") for index in range(size))
    pad_id, bos_id, eos_id = (config.get(f"{name}_token_id") for name in ("pad", "bos", "eos"))
    if not isinstance(pad_id, int) or not isinstance(eos_id, int):
        raise CheckpointError("config.json lacks pad_token_id or eos_token_id")
    if bos_id in (pad_id, eos_id):
        bos_id = None
    unknown = next((names[i] for i in names if names[i].strip("<[]>").lower() == "unk"), None)
    return tokens, pad_id, bos_id, eos_id, None if unknown is None else ids[unknown]


def _ids_of_files(folder: Path) -> dict[str, int]:
    if pieces := [name for name in _PIECES if (folder / name).is_file()]:
        raise _pieces_without_tokenizer(pieces[0])
    if (folder / "vocab.json").is_file():
        return _checked(read_object(folder / "vocab.json"))
    if (folder / "vocab.txt").is_file():
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        tokens = [line for line in lines if line]
        if any(token.startswith("##") for token in tokens):
            raise _pieces_without_tokenizer("vocab.txt has pieces of words")
        return {token: index for index, token in enumerate(tokens)}
    raise CheckpointError("no tokenizer.json, vocab.json or vocab.txt in it")


def _ids_of_tokenizer(tokenizer: Mapping[str, Any]) -> dict[str, int]:
    found = tokenizer.get("model", {}).get("vocab", {})
    if isinstance(found, list):  # Unigram's pieces have scores
        found = {piece: index for index, (piece, _) in enumerate(found)}
    ids = _checked(found)
    for added in tokenizer.get("added_tokens", ()):
        ids.setdefault(added["content"], added["id"])
    return ids


def _has_pieces(tokenizer: Mapping[str, Any]) -> bool:
    model = tokenizer["model"]
    kind = model.get("type")
    return kind != "WordLevel" and not (kind == "BPE" and not model.get("merges"))


def _around(processor: Mapping[str, Any] | None) -> tuple[list[int], list[int]]:
    """Ids that a tokenizer's post-processor puts before and after a text."""
    if processor is None:
        return [], []
    try:
        if processor["type"] in ("RobertaProcessing", "BertProcessing"):
            return [processor["cls"][1]], [processor["sep"][1]]
        if processor["type"] == "TemplateProcessing":
            before: list[int] = []
            after: list[int] = []
            ids = before
            for item in processor["single"]:
                if "Sequence" in item:
                    ids = after
                else:
                    ids += processor["special_tokens"][item["SpecialToken"]["id"]]["ids"]
            return before, after
    except (KeyError, IndexError, TypeError) as error:
        raise CheckpointError("tokenizer.json has a damaged post_processor") from error
    raise CheckpointError(f"tokenizer.json has a post_processor {processor['type']!r}")


def _checked(values: Mapping[str, Any]) -> dict[str, int]:
    if not values or not all(isinstance(index, int) for index in values.values()):
        raise CheckpointError("the vocabulary is not an object of tokens and their ids")
    return dict(values)


def _wrapping(vocabulary: Vocabulary, begin: list[int], end: list[int]) -> Wrapping:
    if begin not in ([], [vocabulary.bos_id]) or end not in ([], [vocabulary.eos_id]):
        raise CheckpointError(
            f"tokenizer.json puts the ids {begin} before and {end} after a text: expected "
            "bos_token_id, eos_token_id or none"
        )
    return bool(begin), bool(end)


def _pieces_without_tokenizer(found: str) -> CheckpointError:
    return CheckpointError(
        f"{found}: expected a tokenizer.json, which transformers writes of most tokenizers "
        "(save_pretrained), or a vocabulary of SMILES tokens; molspec.decode and molspec.compile "
        "take the model itself and token ids"
    )
