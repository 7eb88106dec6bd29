import copy
import json
import pickle
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from molspec.text import TokenizationError, Vocabulary, tokenize
from tests import refused

SPECIAL = ("<PAD>", "<BOS>", "<EOS>", "?")


@given(st.lists(st.integers(4, 9)))
def test_ids_round_trip(ids: list[int]) -> None:
    vocabulary = Vocabulary((*SPECIAL, "C", "c", "[C]", "1", "%10", "Cl"), unk_id=3)
    text = vocabulary.decode(ids)
    assert vocabulary.encode(text) == ids
    assert len(ids) == len(tokenize(text))


def test_decode_omits_only_pad_bos_and_eos() -> None:
    vocabulary = Vocabulary((*SPECIAL, "C", "O"), unk_id=3)
    assert vocabulary.decode([1, 4, 0, 3, 2, 5, 2]) == "C?O"
    for index in (-1, 6):
        refused(rf"^token id {index}: expected 0 to 5$", vocabulary.decode, [4, index])
    assert Vocabulary((*SPECIAL, "C")).encode("?C") == [3, 4]  # "?" is no special token there


def unknown(*names: str) -> str:
    return "not in the model's vocabulary: " + ", ".join(names)


@pytest.mark.parametrize(
    ("smiles", "message"),
    [
        ("C[Xe]OC[Xe][U]", unknown("'[Xe]'", "'[U]'")),
        ("C?", unknown("'?'")),
        ("[a][b][c][d][e][f][g]", unknown("'[a]'", "'[b]'", "'[c]'", "'[d]'", "'[e]'", "...")),
        (f"[{'x' * 100}]", unknown(f"'[{'x' * 39}...'")),
        ("[\n]", unknown("'[<U+000A>]'")),
        ("<PAD>", "not SMILES: '<' at position 1"),
        ("C[Xe]J", "not SMILES: 'J' at position 6"),
    ],
)
def test_error_names_unknown_tokens(smiles: str, message: str) -> None:
    vocabulary = Vocabulary((*SPECIAL, "C", "O"), unk_id=3)
    refused(TokenizationError, f"^{re.escape(message)}$", vocabulary.encode, smiles)


def test_json_and_pickle_round_trip() -> None:
    vocabulary = Vocabulary((*SPECIAL, "C", "O"), unk_id=3)
    assert Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary
    assert copy.deepcopy(vocabulary).encode("CCO") == vocabulary.encode("CCO")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tokens": "pbec"}, "tokens is 'pbec'"),
        ({"tokens": 5}, "tokens is 5"),
        ({"tokens": ("a", "b", "c", "")}, "token 3 is ''"),
        ({"tokens": ("a", "b", "c", 4)}, "token 3 is 4"),
        ({"tokens": ("a", "b", "c", "d\ud800")}, r"token 3 is 'd\\ud800'"),
        ({"tokens": ("a", "b", "c", "b")}, "token 'b' occurs twice"),
        ({"tokens": ("a", "b")}, "special id 2: expected 0 to 1"),
        ({"eos_id": -1}, "special id -1"),
        ({"pad_id": 2**40}, "special id 1099511627776"),
        ({"bos_id": 0}, r"special ids \(0, 0, 2\)"),
        ({"unk_id": "?"}, r"unk_id is '\?'"),
        ({"pad_id": None}, "pad_id is None"),
    ],
)
def test_invalid_vocabularies_are_refused(values: dict[str, Any], message: str) -> None:
    refused(f"^{message}", Vocabulary, **{"tokens": ("a", "b", "c", "d"), **values})


def test_from_json_names_wrong_fields() -> None:
    values = Vocabulary(("a", "b", "c")).to_json()
    less = {key: value for key, value in values.items() if key != "unk_id"}
    for wrong, told in (
        (less, "vocabulary fields are bos_id, eos_id, pad_id, tokens:"),
        ({**values, "mask_id": 3}, "expected tokens, pad_id, bos_id, eos_id, unk_id"),
        ({**values, "tokens": "abc"}, "tokens is a str"),
    ):
        refused(told, Vocabulary.from_json, wrong)
