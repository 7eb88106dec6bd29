"""Drafters compared with simple reference versions."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from molspec._native import BeamSpec, DraftTree, ExternalOptions, NativeDrafter, SequenceSpec
from molspec.decoding import Strategy
from molspec.drafting import Drafting, LookAhead, NoDraft, TreeDraft, WindowDrafts, resolve
from molspec.drafting.native import native_options
from molspec.drafting.ngram import build_ngram, guess_model
from molspec.text import Vocabulary
from tests import refused
from tests.tiny import QUERIES, VOCABULARY

TEXT_IDS = st.integers(4, VOCABULARY.size - 1)
SOURCES = st.lists(TEXT_IDS, max_size=30)
TARGETS = [VOCABULARY.encode(query) for query in QUERIES]
PAIRS = list(zip(TARGETS, TARGETS[1:] + TARGETS[:1], strict=True))
NGRAM = build_ngram(VOCABULARY, PAIRS, min_gain=0.0)
GUESS = guess_model(VOCABULARY, None)
CARBON = VOCABULARY.encode("c")[0]
BEAM = BeamSpec(max_length=9, beam_size=2, n_best=2)


def drafter(
    drafting: Drafting, source_ids: list[int], ngram: bytes | None = NGRAM
) -> NativeDrafter:
    native = NativeDrafter(native_options(drafting), guess_model(VOCABULARY, ngram))
    native.start(source_ids)
    return native


def test_numbers_of_numpy_are_those_of_python() -> None:
    """Equal settings have equal JSON, which names a drafter in a cache and a journal."""
    draft = TreeDraft(node_budget=np.int64(3), min_probability=np.float32(0.5))  # type: ignore[arg-type]
    assert [type(value) for value in vars(draft).values()] == [int, int, float]
    assert draft == TreeDraft(3, min_probability=0.5)


def content(tree: DraftTree) -> tuple[list[int], list[int], list[float]]:
    return tree.token_ids, tree.parents, tree.log_probs


def paths(proposed: DraftTree) -> list[tuple[int, ...]]:
    """The token ids on the path from the last generated token to each node."""
    found: list[tuple[int, ...]] = []
    for token_id, parent in zip(proposed.token_ids, proposed.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token_id))
    return found


def prefixes(drafts: list[list[int]]) -> set[tuple[int, ...]]:
    return {tuple(draft[: end + 1]) for draft in drafts for end in range(len(draft))}


def even_windows(source_ids: list[int], length: int, count: int) -> list[list[int]]:
    """Windows spread as in the published code, which pads the source with the token c."""
    start_count = max(len(source_ids) - length + 1, count)
    step = np.float32(start_count - 1) / np.float32(max(count - 1, 1))
    starts = [int(np.float32(k) * step) for k in range(count)]
    filled = [*source_ids, *[CARBON] * (length + count)]
    return [filled[start : start + length] for start in starts]


def test_no_draft_proposes_nothing() -> None:
    assert content(drafter(NoDraft(), TARGETS[0]).propose([])) == ([], [], [])


@given(SOURCES, st.integers(1, 8), st.integers(1, 8))
def test_first_windows_are_at_start_of_source(source: list[int], length: int, count: int) -> None:
    drafting = WindowDrafts(length, count, choice="first")
    drafts = [source[i : i + length] for i in range(min(count, len(source)))]
    assert set(paths(drafter(drafting, source).propose([]))) == prefixes(drafts)


@given(SOURCES, st.integers(1, 8), st.integers(1, 8))
def test_even_windows_match_published_code(source: list[int], length: int, count: int) -> None:
    drafts = even_windows(source, length, count)
    assert set(paths(drafter(WindowDrafts(length, count), source).propose([]))) == prefixes(drafts)


@given(SOURCES, st.integers(1, 6), st.integers(1, 6))
def test_smart_windows_follow_the_last_token(source: list[int], length: int, count: int) -> None:
    drafts = drafter(WindowDrafts(length, count, smart=True), source)
    last = source[len(source) // 2] if source else VOCABULARY.encode("C")[0]
    for path in paths(drafts.propose([last])):
        text = (last, *path)
        windows = (tuple(source[i : i + len(text)]) for i in range(len(source)))
        assert text in windows


@given(SOURCES, st.integers(1, 40))
def test_tree_is_valid_and_within_budget(source: list[int], budget: int) -> None:
    token_ids, parents, log_probs = content(drafter(TreeDraft(budget), source).propose([]))
    assert len(token_ids) <= budget
    assert all(parent < index for index, parent in enumerate(parents))
    assert len(set(zip(parents, token_ids, strict=True))) == len(token_ids)
    assert not set(token_ids) & set(VOCABULARY.special_ids)
    for parent in set(parents):
        parent_log_prob = log_probs[parent] if parent >= 0 else 0.0
        children = [log_probs[i] for i, p in enumerate(parents) if p == parent]
        assert np.exp(children).sum() <= np.exp(parent_log_prob) * 1.001


@given(SOURCES, st.lists(TEXT_IDS, max_size=12))
def test_tree_depends_only_on_source_and_sequence(source: list[int], generated: list[int]) -> None:
    one = drafter(TreeDraft(12), source)
    other = drafter(TreeDraft(12), TARGETS[6])
    other.propose(TARGETS[6])
    other.start(source)
    for end in range(len(generated)):
        other.propose(generated[:end])
    expected = content(one.propose(generated))
    assert content(other.propose(generated)) == expected
    other.propose([*generated, CARBON])  # extend it, then go back
    assert content(other.propose(generated)) == expected


@given(SOURCES, st.lists(TEXT_IDS, max_size=12))
def test_tree_after_padding_has_no_pad_bos_or_eos(source: list[int], generated: list[int]) -> None:
    """A model may write PAD, which ends a spelling: no draft copies from beyond the end."""
    drafts = drafter(TreeDraft(12), source)
    path: list[int] = []
    for _ in range(3):
        path += [*generated, *source, VOCABULARY.pad_id, VOCABULARY.pad_id]
        tree = drafts.propose(path)
        assert all(VOCABULARY.eos_id < token < VOCABULARY.size for token in tree.token_ids)


def test_refused_source_leaves_previous_source() -> None:
    drafts = drafter(TreeDraft(12), TARGETS[6])
    before = content(drafts.propose([]))
    refused("9999", drafts.start, [5] * 4000 + [9999])
    assert content(drafts.propose([])) == before


@pytest.mark.parametrize("count", [200, 400])
def test_token_absent_from_source_matches_nothing_in_it(count: int) -> None:
    """Only the first of many symbols get their own codes; the others match no token."""
    guess = guess_model(Vocabulary(tuple(f"<{index}>" for index in range(700))), None)
    drafts = NativeDrafter(native_options(TreeDraft(4, min_probability=0)), guess)
    drafts.start([*range(9, 9 + count)])
    assert drafts.propose([9, 10, 11]).token_ids == [12, 13, 14, 15]
    assert max(drafts.propose([9, 10, 11, 690]).log_probs) > math.log(0.001)


@pytest.mark.parametrize("drafting", [NoDraft(), WindowDrafts(), TreeDraft()])
def test_native_drafter_without_a_source_drafts(drafting: Any) -> None:
    drafter = NativeDrafter(native_options(drafting), GUESS)
    drafter.propose([])
    assert all(0 <= token < VOCABULARY.size for token in drafter.propose([4]).token_ids)


def test_tree_continues_copying_from_source() -> None:
    source = VOCABULARY.encode("CC(=O)NCCOCCN(C)C=O")
    drafts = drafter(TreeDraft(4), source, ngram=None)
    assert tuple(source[8:10]) in paths(drafts.propose(source[:8]))


def test_copied_ring_digits_are_renumbered() -> None:
    # The ring is the second open one in the source, but the first in the target.
    source = VOCABULARY.encode("C1CC(Nc2ccccc2)C1")
    drafts = drafter(TreeDraft(16), source, ngram=None)
    assert tuple(VOCABULARY.encode("1ccc")) in paths(drafts.propose(VOCABULARY.encode("C(Nc")))
    path = VOCABULARY.encode("C(Nc1ccccc")
    assert tuple(VOCABULARY.encode("1)")) in paths(drafts.propose(path))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LookAhead(5, drafter="tree"), "drafter is 'tree': expected a configuration"),
        (lambda: resolve("beams"), "drafter is 'beams': expected one of none, windows, tree"),
        (lambda: resolve("tree", draft_length=4), "draft_length is 4: drafter 'tree' has no such"),
        (lambda: resolve(NoDraft(), node_budget=4), "node_budget is 4: expected none beside"),
        (lambda: resolve("windows", draft_length=0), "draft_length is 0: expected"),
        (lambda: drafter(TreeDraft(), [13]), "13"),
        (lambda: NativeDrafter(ExternalOptions(), GUESS), "options are ExternalOptions: expected"),
        (lambda: Strategy(BEAM, GUESS), "drafter is .*: expected None"),
        (lambda: Strategy(SequenceSpec(max_length=9, drafter=ExternalOptions())), "as search says"),
    ],
)
def test_wrong_options_are_refused(call: object, message: str) -> None:
    refused(message, call)
