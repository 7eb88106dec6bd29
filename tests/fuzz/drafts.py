"""N-gram models from files, and drafters over any source."""

import itertools
from contextlib import suppress

from molspec._native import NativeDrafter
from molspec.drafting import Drafting, NoDraft, TreeDraft, WindowDrafts, native
from molspec.drafting.ngram import build_ngram, guess_model
from tests.fuzz.draw import Draw
from tests.tiny import QUERIES, VOCABULARY

_IDS = [VOCABULARY.encode(query) for query in QUERIES[:-1]]
_NGRAMS = [
    build_ngram(VOCABULARY, list(itertools.pairwise(_IDS)), min_gain=0.0, rewrites=rewrites)
    for rewrites in (False, True)
]
_GUESSES = [guess_model(VOCABULARY, ngram) for ngram in (None, *_NGRAMS)]


def ngram(draw: Draw) -> None:
    """A damaged n-gram model is refused, or drafts tokens."""
    content = draw.damaged(draw.choice(_NGRAMS))
    with suppress(ValueError):
        guess = guess_model(VOCABULARY, content)
        _propose_along_a_path(draw, TreeDraft(), guess)
        guess.tables_row()
        guess.text_row(_IDS[4])


def drafts(draw: Draw) -> None:
    """Any options and source give a tree of the vocabulary's tokens, or ValueError."""
    with suppress(ValueError):
        _propose_along_a_path(draw, _drafting(draw), draw.choice(_GUESSES))


def _drafting(draw: Draw) -> Drafting:
    kind = draw.below(3)
    if kind == 0:
        return NoDraft()
    if kind == 1:
        choice = draw.choice(("even", "first"))
        return WindowDrafts(
            draw.integer(), draw.integer(), choice, bool(draw.below(2)), bool(draw.below(2))
        )
    return TreeDraft(draw.integer(), draw.integer(), draw.byte() / 255)


def _propose_along_a_path(draw: Draw, drafting: Drafting, guess: object) -> None:
    def token() -> int:
        return draw.below(VOCABULARY.size) if draw.below(16) else draw.integer() % 2**31

    drafter = NativeDrafter(native.native_options(drafting), guess)  # type: ignore[arg-type]
    drafter.start(draw.some(60, token))
    path: list[int] = []
    for _ in range(draw.below(6)):
        tree = drafter.propose(path)
        assert len(tree.token_ids) == len(tree.parents) == len(tree.log_probs)
        assert all(0 <= token_id < VOCABULARY.size for token_id in tree.token_ids)
        assert all(-1 <= parent < node for node, parent in enumerate(tree.parents))
        path += draw.some(5, token)
