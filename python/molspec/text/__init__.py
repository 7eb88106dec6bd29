"""Text: SMILES, their atomwise tokens, and the tokens' ids.

Tokens and vocabularies need no RDKit: a model is trained without it.
"""

from typing import TYPE_CHECKING

from molspec.common.lazy import imported_when_used

if TYPE_CHECKING:
    from molspec.text.aligned import (
        rooted_spellings as rooted_spellings,
        spelt_alike as spelt_alike,
    )
    from molspec.text.bounds import too_large as too_large
    from molspec.text.molecules import (
        read_smiles as read_smiles,
        write_smiles as write_smiles,
        written_order as written_order,
    )
    from molspec.text.pieces import PieceVocabulary as PieceVocabulary
    from molspec.text.smiles import (
        InvalidSmilesError as InvalidSmilesError,
        canonical_query as canonical_query,
        canonical_sides as canonical_sides,
        canonicalise as canonicalise,
        check_beginning as check_beginning,
        check_notation as check_notation,
        check_sides as check_sides,
        check_text as check_text,
        is_one_word as is_one_word,
        other_spellings as other_spellings,
        quiet as quiet,
        sides_of as sides_of,
        without_deuterium as without_deuterium,
    )
    from molspec.text.tokens import (
        TokenizationError as TokenizationError,
        count_tokens as count_tokens,
        elements as elements,
        extension_of as extension_of,
        has_dative_bond as has_dative_bond,
        is_text as is_text,
        plain_smiles as plain_smiles,
        reaction_sides as reaction_sides,
        tokenize as tokenize,
    )
    from molspec.text.vocabulary import Vocabulary as Vocabulary
else:
    __getattr__, __dir__ = imported_when_used(__name__)
