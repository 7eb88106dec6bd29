"""Spellings of a target that are aligned with a query, without atom maps.

Models of root-aligned SMILES (Zhong et al. 2022, Chem. Sci., 10.1039/D2SC02763A) begin each
molecule at its atom that comes first in the query, and order molecules by these atoms; they find
any other spelling improbable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import product

from molspec.text.molecules import read_smiles, write_smiles
from molspec.text.smiles import canonicalise, quiet
from molspec.text.tokens import tokenize

#: Maximum spellings of a target of several molecules. A single molecule has all of them.
_MOST = 64
#: For one of several molecules, the number of best spellings by each of two measures.
_KEPT = 3


@dataclass(frozen=True)
class _Spelling:
    """A molecule written from one of its atoms, compared with a text of the query.

    prefix: the number of its first tokens that are in the query, from `prefix_place` on.
    shared: the number of its tokens that are in the query in the same order; the longest common
        piece would begin at `place`.
    """

    text: str
    prefix: int
    prefix_place: int
    shared: int
    place: int


def aligned_spellings(query: str, target: str) -> list[str]:
    """The canonical SMILES of `target`, then those that are most similar to a text of the query.

    Empty if it is not a molecule. Ring numbers may differ from the query's. For several molecules
    the best spellings are those that agree with the query from their first token, then those with
    most common tokens; the molecules are in the order of their places in it, two also in the other.
    """
    canonical = canonicalise(target)
    if canonical is None:
        return []
    tokens = [_plain(token) for token in tokenize(query)]
    parts = canonical.split(".")
    spelt = [[_beside(tokens, text) for text in _from_each_atom(part)] for part in parts]
    if len(parts) == 1:
        return list(dict.fromkeys([canonical, *(each.text for each in spelt[0])]))
    most = max(count for count in range(1, _MOST) if count ** len(parts) <= _MOST)
    chosen = [_chosen(spellings, most) for spellings in spelt]
    found = {canonical: None}
    combinations = product(*map(enumerate, chosen))
    for choice in sorted(combinations, key=lambda each: sum(rank for rank, _ in each)):
        placed = sorted((place, text) for _, (text, place) in choice)
        texts = [text for _, text in placed]
        found[".".join(texts)] = None
        if len(texts) == 2:
            found[".".join(reversed(texts))] = None
    return list(found)[:_MOST]


def spelt_alike(queries: Sequence[str], reactants: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of a query's spelling and that of a molecule which is to be its first reactant.

    The pairs with the longest common beginning come first: both begin at the same atom there, as
    models of root-aligned SMILES write the first molecule. Ring numbers may differ.
    """
    texts = (*queries, *reactants)
    tokens = {text: [_plain(token) for token in tokenize(text)] for text in texts}
    pairs = product(queries, reactants)
    return sorted(pairs, key=lambda pair: -common_length(*(tokens[text] for text in pair)))


def _chosen(spellings: Sequence[_Spelling], most: int) -> list[tuple[str, int]]:
    """The best spellings by each measure, alternately, with their places."""
    by_prefix = sorted(spellings, key=lambda each: (-each.prefix, each.prefix_place))[:_KEPT]
    by_shared = sorted(spellings, key=lambda each: -each.shared)[:_KEPT]
    found: dict[str, int] = {}
    for first, second in zip(by_prefix, by_shared, strict=True):
        found.setdefault(first.text, first.prefix_place)
        found.setdefault(second.text, second.place)
    return list(found.items())[:most]


def _from_each_atom(canonical: str) -> list[str]:
    with quiet():
        molecule = read_smiles(canonical)
        if molecule is None:  # RDKit cannot read its own SMILES
            return [canonical]
        atoms = range(molecule.GetNumAtoms())
        return list({write_smiles(molecule, atom): None for atom in atoms})


def _beside(query: Sequence[str], text: str) -> _Spelling:
    tokens = [_plain(token) for token in tokenize(text)]
    prefix, place = max(
        ((common_length(tokens, query[start:]), -start) for start in range(len(query))),
        default=(0, 0),
    )
    blocks = SequenceMatcher(None, query, tokens, autojunk=False).get_matching_blocks()
    longest = max(blocks, key=lambda block: block.size)
    shared = sum(block.size for block in blocks)
    return _Spelling(text, prefix, -place, shared, longest.a - longest.b)


def common_length(first: Sequence[object], second: Sequence[object]) -> int:
    """The length of the common beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _plain(token: str) -> str:
    """A token, with the same text for all ring numbers."""
    return "1" if token.isdigit() or token.startswith("%") else token
