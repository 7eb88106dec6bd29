"""Text: SMILES, their atomwise tokens, and the tokens' ids.

Tokens and vocabularies need no RDKit: a model is trained without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from molspec.common.lazy import imported_when_used
from molspec.text.pieces import PieceVocabulary
from molspec.text.tokens import (
    TokenizationError,
    elements,
    has_dative_bond,
    is_text,
    plain_smiles,
    reaction_sides,
    tokenize,
)
from molspec.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from molspec.text.aligned import aligned_spellings, spelt_alike
    from molspec.text.molecules import read_smiles, write_smiles, written_order
    from molspec.text.rings import too_many_rings
    from molspec.text.smiles import (
        InvalidSmilesError,
        canonical_query,
        canonical_sides,
        canonicalise,
        check_beginning,
        check_notation,
        check_sides,
        check_smiles,
        check_text,
        is_one_word,
        other_spellings,
        quiet,
        sides_of,
    )

__all__ = [
    "InvalidSmilesError",
    "PieceVocabulary",
    "TokenizationError",
    "Vocabulary",
    "aligned_spellings",
    "canonical_query",
    "canonical_sides",
    "canonicalise",
    "check_beginning",
    "check_notation",
    "check_sides",
    "check_smiles",
    "check_text",
    "elements",
    "has_dative_bond",
    "is_one_word",
    "is_text",
    "other_spellings",
    "plain_smiles",
    "quiet",
    "reaction_sides",
    "read_smiles",
    "sides_of",
    "spelt_alike",
    "tokenize",
    "too_many_rings",
    "write_smiles",
    "written_order",
]

#: Names whose modules need RDKit.
_NAMES = {
    "molspec.text.aligned": ("aligned_spellings", "spelt_alike"),
    "molspec.text.molecules": ("read_smiles", "write_smiles", "written_order"),
    "molspec.text.rings": ("too_many_rings",),
    "molspec.text.smiles": (
        "InvalidSmilesError",
        "canonical_query",
        "canonical_sides",
        "canonicalise",
        "check_beginning",
        "check_notation",
        "check_sides",
        "check_smiles",
        "check_text",
        "is_one_word",
        "other_spellings",
        "quiet",
        "sides_of",
    ),
}

__getattr__ = imported_when_used(__name__, _NAMES)
