"""Atomwise SMILES tokens.

They are those of Schwaller et al. (ACS Cent. Sci. 2019, 5, 1572): a bracket atom with its content,
Br, Cl, one-letter atoms, bonds, branches, ring closures as one digit or % and two, and the dot.
"""

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NoReturn

_TOKEN = r"\[[^\[\]]+\]|Br?|Cl?|[NOSPFIbcnops0-9().=#\-+\\/:~@?>*$]|%[0-9]{2}"
#: Words of tokenised files: some write the arrow of a reaction as one.
_WORD = re.compile(f"(?:{_TOKEN})|>>")
#: Words before a molecule that some models read too, such as the <RX_3> of a class of reactions.
_CLASSES = re.compile(r"(?:<[^<>\s]+>\s*)+")
#: A comma in a table without quotes may have cut it off.
_EXTENSION = re.compile(r"^(\s*\S+)[ \t]+\|(?:[^|]*\||[^|\s][^|]*$)")
#: Labels and coordinates of an extension.
_NESTED = re.compile(r"\$[^$]*\$|\([^()]*\)")
#: A group of centres, both of whose configurations are there (&) or one that is not known (o), or
#: all centres (r).
_GROUP = re.compile(r"[|,]([&o]\d*:\d|r(?=[|,]))")
#: The symbol of an atom: that of a bracket, with the rest of it, or one without brackets.
_SYMBOL = re.compile(r"\[\d*([A-Z][a-z]?|se|te|as|si|[a-z]|\*)[^\[\]]*\]|(Br|Cl|[BCNOPSFIbcnops*])")
#: Characters of a token that a message shows, and tokens that it names.
_SHOWN, _NAMED = 40, 5


class TokenizationError(ValueError):
    """The text is not SMILES, or has tokens that a vocabulary lacks; the message names them."""


@lru_cache(16)
def _patterns(own: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Of a token, and of any number of them."""
    token = "|".join([*map(re.escape, own), _TOKEN])
    return re.compile(token), re.compile(f"(?:{token})*")


def tokenize(smiles: str, own: tuple[str, ...] = ()) -> list[str]:
    """Tokens of `smiles` in order; joined, they are `smiles`.

    own: a vocabulary's tokens that are tried first, in this order.

    Raises TokenizationError, naming the first character that begins no token, and its position
    from 1.
    """
    tokens = _patterns(own)[0].findall(smiles)
    if is_text(smiles) and "".join(tokens) == smiles:
        return tokens
    end = _end(smiles, own)
    character = smiles[end]
    reason = {
        "[": " opens a bracket that is empty or never closed",
        "%": " is not followed by two digits",
        "\0": " is a NUL byte",
    }.get(character, "")
    raise TokenizationError(f"not SMILES: {_quoted(character)} at position {end + 1}{reason}")


def count_tokens(text: str) -> int:
    """The number of tokens in a text, without what is none."""
    return sum(1 for _ in _patterns(())[0].finditer(text))


def reaction_sides(text: str) -> list[str]:
    """The parts of a text between its arrows, ">"; that of a dative bond, "->", is none of them."""
    return re.split("(?<!-)>", text)


def has_dative_bond(text: str) -> bool:
    """Whether SMILES has a bond of RDKit's own, "->" or "<-"."""
    return "->" in text or "<-" in text


def plain_smiles(text: str) -> str:
    """SMILES without ChemAxon's extension, as in "CCO |r|", and without blanks between its tokens.

    OpenNMT's files have blanks between all tokens or characters. What follows a molecule otherwise,
    its name, stays: of two words that are joined both are atoms, and numbers alone are names.
    Classes before it, as in "<RX_3> CCO", are joined to it.
    """
    if classes := _CLASSES.match(text):
        return "".join(classes[0].split()) + plain_smiles(text[classes.end() :])
    words = text.split()
    if len(words) < 2:
        return text
    count = next((i for i, word in enumerate(words) if word.startswith("|")), len(words))
    tokens = words[:count]
    if _are_tokens(tokens):
        text = " ".join(["".join(tokens), *words[count:]])
    return _EXTENSION.sub(r"\1", text)


def extension_of(text: str) -> str:
    """The extension behind SMILES, after a blank, if it has groups of centres; otherwise ""."""
    smiles, bar, more = text.partition("|")
    inside, end, _ = more.partition("|")
    extension = bar + "".join(inside.split()) + end
    is_behind = bar and smiles[-1:].isspace() and ">" not in smiles
    if not is_behind or len(plain_smiles(smiles).split()) != 1:
        return ""
    return f" {extension}" if _GROUP.search(_NESTED.sub("", extension)) else ""


def _are_tokens(words: list[str]) -> bool:
    if len(words) < 2 or all(word.isdigit() for word in words[1:]):
        return False
    if len(words) == 2 and not all(word[0].isalpha() or word[0] == "[" for word in words):
        return False
    single = all(len(word) == 1 or _WORD.fullmatch(word) for word in words)
    return single and is_tokens("".join(words))


def _end(smiles: str, own: tuple[str, ...] = ()) -> int:
    """The place of the first character that begins no token."""
    if not is_text(smiles):
        raise TokenizationError("not SMILES: holds half a surrogate pair")
    match = _patterns(own)[1].match(smiles)
    return match.end() if match else 0


def is_tokens(text: str) -> bool:
    """Whether a text consists of tokens."""
    return _end(text) == len(text) if is_text(text) else False


def refuse_unknown(tokens: Iterable[str]) -> NoReturn:
    """Raise TokenizationError, naming tokens that a vocabulary lacks, each once."""
    names = list(map(_quoted, dict.fromkeys(tokens)))
    named = ", ".join(names[:_NAMED]) + ", ..." * (len(names) > _NAMED)
    has_deuterium = any(name.startswith("'[2H") for name in names)
    hint = "; deuterium_as_hydrogen (--deuterium-as-hydrogen) reads hydrogen" * has_deuterium
    raise TokenizationError(f"not in the model's vocabulary: {named}{hint}")


def _quoted(text: str) -> str:
    """The text in quotes, safe to show anywhere: code points for what is not printable ASCII."""
    shown = "".join(it if " " <= it <= "~" else f"<U+{ord(it):04X}>" for it in text[:_SHOWN])
    return f"'{shown}{'...' * (len(text) > _SHOWN)}'"


def element_counts(smiles: str) -> Counter[str]:
    """The number of atoms of each element in SMILES, also of bracketed hydrogen; "*" is any."""
    return Counter((within or alone).capitalize() for within, alone in _SYMBOL.findall(smiles))


def elements(smiles: str) -> set[str]:
    """The elements in SMILES, except hydrogen; "*" is any."""
    return set(element_counts(smiles)) - {"H"}


def is_text(text: str) -> bool:
    """Whether UTF-8 can encode it: Python's strings may contain a lone surrogate."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
