"""Spellings of molecules that begin at other atoms.

Models of root-aligned SMILES (Zhong et al. 2022, Chem. Sci., 10.1039/D2SC02763A) begin each
molecule at its atom that comes first in the query, and order molecules by these atoms; they find
any other spelling improbable.
"""

from collections.abc import Sequence
from itertools import product

from molspec.text.molecules import read_smiles, write_smiles
from molspec.text.smiles import canonicalise, quiet
from molspec.text.tokens import tokenize


def rooted_spellings(canonical: str) -> list[str]:
    """The canonical SMILES of a molecule, then those that begin at each of its atoms."""
    with quiet():
        molecule = read_smiles(canonical)
        if molecule is None:  # RDKit cannot read its own SMILES
            return [canonical]
        atoms = range(molecule.GetNumAtoms())
        texts = [_without_arrows(write_smiles(molecule, atom), canonical) for atom in atoms]
        return list(dict.fromkeys([canonical, *texts]))


def _without_arrows(text: str, canonical: str) -> str:
    """The text with single bonds for dative ones, if that is the same molecule."""
    plain = text.replace("->", "").replace("<-", "")
    return plain if plain != text and canonicalise(plain) == canonical else text


def spelt_alike(queries: Sequence[str], reactants: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of a query's spelling and that of a molecule which is to be its first reactant.

    The pairs with the longest common beginning come first: both begin at the same atom there, as
    models of root-aligned SMILES write the first molecule. Ring numbers may differ.
    """
    texts = (*queries, *reactants)
    tokens = {text: [_plain(token) for token in tokenize(text)] for text in texts}
    pairs = product(queries, reactants)
    return sorted(pairs, key=lambda pair: -common_length(*(tokens[text] for text in pair)))


def common_length(first: Sequence[object], second: Sequence[object]) -> int:
    """The length of the common beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _plain(token: str) -> str:
    """A token, with the same text for all ring numbers."""
    return "1" if token.isdigit() or token.startswith("%") else token
