"""Text: SMILES, their atomwise tokens, and the tokens' ids."""

from molspec._native import TokenizationError, tokenize
from molspec.text.vocabulary import Vocabulary

__all__ = ["TokenizationError", "Vocabulary", "tokenize"]
