"""Text: SMILES, their atomwise tokens, and the tokens' ids.

Tokens and vocabularies need no RDKit: a model is trained without it.
"""

from typing import TYPE_CHECKING

from molspec.common.lazy import imported_when_used

if TYPE_CHECKING:
    from molspec.text.aligned import rooted_spellings as rooted_spellings
    from molspec.text.molecules import read_smiles as read_smiles, write_smiles as write_smiles
    from molspec.text.pieces import PieceVocabulary as PieceVocabulary
    from molspec.text.smiles import (
        canonical_query as canonical_query,
        canonicalise as canonicalise,
        check_text as check_text,
        other_spellings as other_spellings,
        quiet as quiet,
        without_deuterium as without_deuterium,
    )
    from molspec.text.tokens import (
        TokenizationError as TokenizationError,
        is_text as is_text,
        plain_smiles as plain_smiles,
        reaction_sides as reaction_sides,
        tokenize as tokenize,
    )
    from molspec.text.vocabulary import Vocabulary as Vocabulary
else:
    __getattr__, __dir__ = imported_when_used(__name__)
