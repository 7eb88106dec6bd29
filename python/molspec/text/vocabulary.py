"""The tokens that a model knows, by id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import zip_longest
from typing import Any, ClassVar

from molspec.text.tokens import is_text, is_tokens, refuse_unknown, tokenize

_SPECIAL_IDS = ("pad_id", "bos_id", "eos_id", "unk_id")


def difference(there: Sequence[str], here: Sequence[str]) -> str | None:
    """Where the tokens of two models differ first, in words; None if they are the same."""
    for at, (its, own) in enumerate(zip_longest(there, here)):
        if its != own:
            names = ["none" if token is None else repr(token) for token in (its, own)]
            return (
                f"token {at} is {names[0]} of {len(there)} there and {names[1]} of {len(here)} here"
            )
    return None


def _is_mark(token: str) -> bool:
    """Whether it is no part of SMILES, which consists of atoms and characters."""
    if token[0] == "[" and is_tokens(token):
        from molspec.text.smiles import is_atom  # RDKit: a model is trained without it

        return not is_atom(token)
    is_character = len(token) == 1 and (token.isalnum() or token in "[]%")
    return not is_character and not is_tokens(token)


@dataclass(frozen=True)
class Vocabulary:
    """Tokens of source and target: `tokens[i]` has id `i`.

    Special tokens match no text. An unknown token in a query is an error, never `unk_id`: the model
    would answer for another molecule. A query that spells a special token has an unknown
    token, because some vocabularies spell UNK "?", which SMILES uses too. Without BOS, the model's
    spec names the token that the decoder starts with. A vocabulary with tokens that are not those
    of SMILES, such as characters, splits a text into its own tokens, the longest first.

    Raises ValueError if a token is not a string, is empty or occurs twice, or if a special id is
    out of range or used twice.
    """

    #: Whether tokens are SMILES's atoms, bonds, branches and so on, and a text has nothing else.
    atomwise: ClassVar[bool] = True

    tokens: tuple[str, ...]
    pad_id: int = 0
    bos_id: int | None = 1
    eos_id: int = 2
    unk_id: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.tokens, str) or not isinstance(self.tokens, Sequence):
            raise ValueError(f"tokens is {self.tokens!r}: expected a tuple of strings")
        for index, token in enumerate(self.tokens):
            if not isinstance(token, str) or not token or not is_text(token):
                raise ValueError(f"token {index} is {token!r}: expected text")
        if twice := [token for token, count in Counter(self.tokens).items() if count > 1]:
            raise ValueError(f"token {twice[0]!r} occurs twice")
        for name in _SPECIAL_IDS:
            value = getattr(self, name)
            missing = name in ("bos_id", "unk_id") and value is None
            if not missing and (not isinstance(value, int) or isinstance(value, bool)):
                raise ValueError(f"{name} is {value!r}: expected an integer")
        for index in self.special_ids:
            if not 0 <= index < self.size:
                raise ValueError(f"special id {index}: expected 0 to {self.size - 1}")
        if len(set(self.special_ids)) < len(self.special_ids):
            raise ValueError(f"special ids {self.special_ids}: expected different ones")

    @cached_property
    def _ids(self) -> dict[str, int]:
        """Ids of tokens that match text."""
        special = set(self.special_ids)
        return {token: index for index, token in enumerate(self.tokens) if index not in special}

    @cached_property
    def _own(self) -> tuple[str, ...]:
        """The tokens by which a text is split before SMILES's; none if SMILES has all of them."""
        if all(map(is_tokens, self._ids)):
            return ()
        own = (token for token in self._ids if not is_tokens(token) or len(tokenize(token)) == 1)
        return tuple(sorted(own, key=len, reverse=True))

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """Tokens that stand beside SMILES, such as <RX_3> or [v4], the longest first."""
        return tuple(sorted(filter(_is_mark, self._ids), key=len, reverse=True))

    @property
    def size(self) -> int:
        """Number of tokens, special ones counted."""
        return len(self.tokens)

    @cached_property
    def special_ids(self) -> tuple[int, ...]:
        """PAD, EOS and, where there are such, BOS and UNK."""
        values = (getattr(self, name) for name in _SPECIAL_IDS)
        return tuple(value for value in values if value is not None)

    def encode(self, smiles: str) -> list[int]:
        """Ids of the tokens of `smiles`, without BOS and EOS.

        Raises TokenizationError, naming character and position or the unknown tokens.
        """
        tokens = tokenize(smiles, self._own)
        try:
            return [self._ids[token] for token in tokens]
        except KeyError:
            refuse_unknown(token for token in tokens if token not in self._ids)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of `ids`: PAD, BOS and EOS have none, wherever they are; UNK has its spelling.

        Raises ValueError for an id that is out of range.
        """
        texts = self._texts
        return "".join([texts[index] for index in self._checked(ids)])

    def _checked(self, ids: Iterable[int]) -> list[int]:
        ids = list(ids)
        if ids and not 0 <= min(ids) <= max(ids) < self.size:
            wrong = next(index for index in ids if not 0 <= index < self.size)
            raise ValueError(f"token id {wrong}: expected 0 to {self.size - 1}")
        return ids

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """The text of each token in an answer."""
        silent = (self.pad_id, self.bos_id, self.eos_id)
        return tuple("" if i in silent else token for i, token in enumerate(self.tokens))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Vocabulary:
        """Read what `to_json` wrote; unknown and missing fields are errors."""
        names = [field.name for field in fields(cls)]
        if sorted(values) != sorted(names):
            raise ValueError(
                f"vocabulary fields are {', '.join(sorted(values)) or 'none'}: "
                f"expected {', '.join(names)}"
            )
        if not isinstance(values["tokens"], list):
            raise ValueError(f"tokens is a {type(values['tokens']).__name__}: expected a list")
        return cls(**{**values, "tokens": tuple(values["tokens"])})

    def to_json(self) -> dict[str, Any]:
        """Every field, as JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "tokens": list(self.tokens)}
