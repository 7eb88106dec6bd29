"""Spellings of a target that read along with a query, where no atom maps say which.

Models of root-aligned SMILES (Zhong et al. 2022, Chem. Sci., 10.1039/D2SC02763A) write each
molecule from its atom that comes first in the query, in the order of these atoms; to them any
other spelling is improbable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import product

from rdkit import Chem

from molspec._native import tokenize
from molspec.text.smiles import canonicalise

#: Spellings that are given at most. Of a target that is one molecule all are given.
_MOST = 64
#: Of a molecule among several, those that each of two measures puts first.
_KEPT = 3


@dataclass(frozen=True)
class _Spelling:
    """A molecule from one of its atoms, beside a text of the query.

    prefix: tokens of its beginning that stand in the query, from `prefix_place` on.
    shared: tokens that stand there in its order, the longest piece so that it begins at `place`.
    """

    text: str
    prefix: int
    prefix_place: int
    shared: int
    place: int


def aligned_spellings(query: str, target: str) -> list[str]:
    """SMILES of `target` that are most like a text of the query, after its canonical one.

    None if it is no molecule. Ring numbers may differ from the query's. Where there are several
    molecules, those come first that read along from their first token, then those that have most
    tokens in common with the query; their order is that of their places in it, of two the other
    one too.
    """
    canonical = canonicalise(target)
    if canonical is None:
        return []
    tokens = [_plain(token) for token in tokenize(query)]
    parts = canonical.split(".")
    spelt = [[_beside(tokens, text) for text in _from_each_atom(part)] for part in parts]
    if len(parts) == 1:
        return list(dict.fromkeys([canonical, *(each.text for each in spelt[0])]))
    chosen = [_chosen(spellings, int(_MOST ** (1 / len(parts)))) for spellings in spelt]
    found = {canonical: None}
    for choice in sorted(product(*map(enumerate, chosen)), key=_rank_sum):
        placed = sorted((place, text) for _, (text, place) in choice)
        texts = [text for _, text in placed]
        found[".".join(texts)] = None
        if len(texts) == 2:
            found[".".join(reversed(texts))] = None
    return list(found)[:_MOST]


def _rank_sum(choice: Iterable[tuple[int, tuple[str, int]]]) -> int:
    return sum(rank for rank, _ in choice)


def _chosen(spellings: Sequence[_Spelling], most: int) -> list[tuple[str, int]]:
    """The best spellings by either measure, in turns, with their places."""
    by_prefix = sorted(spellings, key=lambda each: (-each.prefix, each.prefix_place))[:_KEPT]
    by_shared = sorted(spellings, key=lambda each: -each.shared)[:_KEPT]
    found: dict[str, int] = {}
    for first, second in zip(by_prefix, by_shared, strict=True):
        found.setdefault(first.text, first.prefix_place)
        found.setdefault(second.text, second.place)
    return list(found.items())[: max(1, most)]


def _from_each_atom(canonical: str) -> list[str]:
    molecule = Chem.MolFromSmiles(canonical)
    atoms = range(molecule.GetNumAtoms())
    return list({str(Chem.MolToSmiles(molecule, rootedAtAtom=atom)): None for atom in atoms})


def _beside(query: Sequence[str], text: str) -> _Spelling:
    tokens = [_plain(token) for token in tokenize(text)]
    prefix, place = max(
        ((_common(tokens, query[start:]), -start) for start in range(len(query))), default=(0, 0)
    )
    blocks = SequenceMatcher(None, query, tokens, autojunk=False).get_matching_blocks()
    longest = max(blocks, key=lambda block: block.size)
    shared = sum(block.size for block in blocks)
    return _Spelling(text, prefix, -place, shared, longest.a - longest.b)


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """Tokens that two texts begin with alike."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _plain(token: str) -> str:
    """A token; a ring's number is any number."""
    return "1" if token.isdigit() or token.startswith("%") else token
