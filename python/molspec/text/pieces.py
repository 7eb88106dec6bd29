"""Vocabularies of learned pieces of text: BPE, Unigram, WordPiece."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from molspec.text import tokens, vocabulary


@dataclass(frozen=True)
class PieceVocabulary(vocabulary.Vocabulary):
    """Pieces of text by id; Hugging Face's tokenizers library splits and joins them.

    `tokenizer` is the content of its tokenizer.json. A text may have words beside SMILES, if the
    model's sources do ("Product:CCO"): only text unknown to the tokenizer is an error.

    Raises ValueError if the library is not installed or cannot read the tokenizer.
    """

    atomwise: ClassVar[bool] = False

    tokenizer: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (count := self._library.get_vocab_size()) > self.size:
            raise ValueError(f"tokenizer has {count} tokens: expected at most {self.size}")

    @property
    def marks(self) -> tuple[str, ...]:
        """None: a text may have words beside SMILES."""
        return ()

    @cached_property
    def _library(self) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ValueError(
                "a vocabulary of pieces needs the tokenizers library: "
                "pip install 'molspec[hugging-face]'"
            ) from error
        library = _called("is none of the tokenizers library", Tokenizer.from_str, self.tokenizer)
        # Files may have the truncation and padding of a training.
        library.no_truncation()
        library.no_padding()
        return library

    def encode(self, text: str) -> list[int]:
        """Ids of the pieces of `text`, without BOS and EOS.

        Raises TokenizationError, naming text that is not a piece, or is a special token; also for
        text that the tokenizer would skip.
        """
        if not tokens.is_text(text):
            raise tokens.TokenizationError("no text: holds half a surrogate pair")
        encoding = _called("fails", self._library.encode, text, add_special_tokens=False)
        covered = [character.isspace() for character in text]
        unknown = []
        for index, (begin, end) in zip(encoding.ids, encoding.offsets, strict=True):
            covered[begin:end] = [True] * (end - begin)
            if index in self.special_ids:
                unknown.append(text[begin:end])
        if not all(covered):
            unknown += self._passed_over(text)
        if unknown or not all(covered) or not encoding.ids:
            tokens.refuse_unknown(unknown or [text])
        return list(encoding.ids)

    def _passed_over(self, text: str) -> list[str]:
        """Characters without a piece. Offsets do not help: after such a one they are too small."""
        return [
            character
            for character in dict.fromkeys("".join(text.split()))
            if not self._library.encode(character, add_special_tokens=False).ids
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of `ids`; special tokens have none.

        Raises ValueError for an id that is out of range.
        """
        kept = self._checked(ids)
        if self._library.decoder is None:  # the library would insert blanks between pieces
            added = self._library.get_added_tokens_decoder()
            special = {index for index, token in added.items() if token.special}
            return "".join(self.tokens[index] for index in kept if index not in special)
        return str(_called("fails", self._library.decode, kept, skip_special_tokens=True))

    def wrapping(self) -> tuple[list[int], list[int]]:
        """Ids that the tokenizer puts before and after a text for its model."""
        inner, whole = (
            _called("fails", self._library.encode, "C", add_special_tokens=special).ids
            for special in (False, True)
        )
        places = range(len(whole) - len(inner) + 1)
        begin = next((i for i in places if whole[i : i + len(inner)] == inner), len(whole))
        return whole[:begin], whole[begin + len(inner) :]


def _called(fault: str, function: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Call the library. Its errors have no class, and those of Rust are not `Exception`s."""
    try:
        return function(*given, **options)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise tokens.TokenizationError(f"tokenizer {fault}: {error}") from error
