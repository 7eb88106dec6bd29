import re

import pytest
from hypothesis import given, strategies as st

from molspec.text import TokenizationError, tokenize
from tests import refused

# Schwaller et al., ACS Cent. Sci. 2019, 5, 1572: the definition that the scanner follows.
PATTERN = re.compile(
    r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>|\*|\$"
    r"|%[0-9]{2}|[0-9])"
)
PIECES = ["[", "]", "[]", "[C@@H]", "[\n]", "Br", "B", "r", "Cl", "C", "l", "%", "%12", "%1", "1"]
PIECES += ["(", ")", "=", "\\", "/", "?", "c", "H", " ", "é", "[é]", "\U0001f600", "٣", "\0"]


def first_gap(text: str) -> int | None:
    """Index of the first character that the regular expression does not match."""
    end = 0
    for match in PATTERN.finditer(text):
        if match.start() > end:
            break
        end = match.end()
    return None if end == len(text) else end


@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.text())
def test_tokens_agree_with_the_regular_expression(text: str) -> None:
    gap = first_gap(text)
    if gap is None:
        assert tokenize(text) == PATTERN.findall(text)
    else:
        refused(TokenizationError, f"^not SMILES: '.*' at position {gap + 1}", tokenize, text)


ERRORS = {
    "CCJ": "not SMILES: 'J' at position 3",
    "C C": "not SMILES: ' ' at position 2",
    "[é]é": "not SMILES: '<U+00E9>' at position 4",
    "C\U0001f600": "not SMILES: '<U+1F600>' at position 2",
    "C\x1b[31m": "not SMILES: '<U+001B>' at position 2",
    "C[CH": "not SMILES: '[' at position 2 opens a bracket that is empty or never closed",
    "C[]": "not SMILES: '[' at position 2 opens a bracket that is empty or never closed",
    "C%1C": "not SMILES: '%' at position 2 is not followed by two digits",
    "C\0": "not SMILES: '<U+0000>' at position 2 is a NUL byte",
    "C\ud800": "not SMILES: holds half a surrogate pair",
}


@pytest.mark.parametrize(("smiles", "message"), list(ERRORS.items()))
def test_error_names_the_character_and_its_position(smiles: str, message: str) -> None:
    refused(TokenizationError, f"^{re.escape(message)}$", tokenize, smiles)
