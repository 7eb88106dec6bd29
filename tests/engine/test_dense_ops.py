"""The dense operators against their twins."""

import pytest
import torch
from hypothesis import given, strategies as st

from molspec.engine import ops
from tests import reference

ids = st.integers(min_value=0, max_value=3)
sequences = st.lists(st.lists(ids, max_size=7), max_size=6)
sizes = st.integers(min_value=0, max_value=5)


def long(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def draw_ids(seed: int, *shape: int, high: int = 3) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


def assert_same(actual: object, expected: object) -> None:
    torch.testing.assert_close(actual, expected, atol=0, rtol=0)


@given(sequences, st.sampled_from([0, 9]))
def test_left_pad(rows: list[list[int]], pad_id: int) -> None:
    token_ids = long([token for row in rows for token in row])
    lengths = long([len(row) for row in rows])
    assert_same(
        ops.left_pad(token_ids, lengths, pad_id), reference.left_pad(token_ids, lengths, pad_id)
    )


def test_left_pad_aligns_ends_and_counts_pads() -> None:
    padded, offsets = ops.left_pad(long([5, 6, 7, 8]), long([1, 3]), 0)
    assert padded.tolist() == [[0, 0, 5], [6, 7, 8]]
    assert offsets.tolist() == [2, 0]


@given(sizes, sizes, st.integers(1, 4), sizes, sizes, st.integers(0, 99))
def test_expand_drafts(
    hypotheses: int, length: int, queries: int, drafts: int, draft_length: int, seed: int
) -> None:
    arguments = (
        draw_ids(seed, hypotheses, length),
        draw_ids(seed + 1, hypotheses, high=9),
        draw_ids(seed + 2, hypotheses, high=queries),
        draw_ids(seed + 3, queries, drafts, draft_length),
    )
    assert_same(ops.expand_drafts(*arguments), reference.expand_drafts(*arguments))


def test_expand_drafts_appends_each_draft_to_each_hypothesis() -> None:
    rows, offsets, queries = ops.expand_drafts(
        long([[0, 1], [1, 2]]), long([1, 0]), long([1, 0]), long([[[3], [4]], [[5], [6]]])
    )
    assert rows.tolist() == [[0, 1, 5], [0, 1, 6], [1, 2, 3], [1, 2, 4]]
    assert offsets.tolist() == [1, 1, 0, 0]
    assert queries.tolist() == [1, 1, 0, 0]


@given(sizes, sizes, st.integers(0, 999))
def test_acceptance_length(rows: int, draft_length: int, seed: int) -> None:
    arguments = (
        draw_ids(seed, rows, draft_length, high=2),
        draw_ids(seed + 1, rows, high=draft_length + 1),
        draw_ids(seed + 2, rows, draft_length, high=2),
    )
    assert_same(ops.acceptance_length(*arguments), reference.acceptance_length(*arguments))


def test_acceptance_stops_at_the_first_difference_or_the_draft_end() -> None:
    drafts = long([[1, 2, 3], [1, 2, 3], [9, 2, 3], [1, 2, 3]])
    predicted = long([[1, 2, 3], [1, 9, 3], [1, 2, 3], [1, 2, 3]])
    accepted = ops.acceptance_length(drafts, long([3, 3, 3, 2]), predicted)
    assert accepted.tolist() == [3, 1, 0, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.left_pad(long([1]), long([1, 1]), 0), "lengths add up to 2: expected the 1"),
        (
            lambda: ops.left_pad(long([1]), long([2**62, 2**62, 2**62, 2**62, 1]), 0),
            r"lengths\[0\] is 4611686018427387904: expected 0 to 1",
        ),
        (lambda: ops.left_pad(long([1]), long([1, -1]), 0), r"lengths\[1\] is -1"),
        (lambda: ops.left_pad(long([[1]]), long([1]), 0), "token_ids has 2 dimensions: expected 1"),
        (
            lambda: ops.expand_drafts(long([[1]]), long([0]), long([2]), long([[[1]]])),
            r"query_indices\[0\] is 2: expected 0 to 0",
        ),
        (
            lambda: ops.expand_drafts(
                *(torch.zeros(size, dtype=torch.int64) for size in ((4, 1), 4, 4)),
                torch.empty(1, 2**62, 0, dtype=torch.int64),
            ),
            f"draft_ids has {2**62} drafts a query: expected at most",
        ),
        (
            lambda: ops.expand_drafts(long([[1]]), long([0, 0]), long([0]), long([[[1]]])),
            "position_offsets has 2 entries",
        ),
        (
            lambda: ops.acceptance_length(long([[1]]), long([2]), long([[1]])),
            r"draft_lengths\[0\] is 2: expected 0 to 1",
        ),
        (
            lambda: ops.acceptance_length(long([[1]]), long([1]), long([[1, 2]])),
            r"predicted_ids has shape \[1, 2\]",
        ),
        (
            lambda: ops.acceptance_length(long([[1]]).int(), long([1]), long([[1]])),
            "draft_ids is of int32: expected int64",
        ),
    ],
)
def test_bad_arguments_are_refused(call: object, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.filterwarnings("ignore")
def test_operators_pass_opcheck() -> None:
    tests = ("test_schema", "test_faketensor")
    library = torch.ops.molspec
    torch.library.opcheck(
        library.left_pad, (long([1, 2, 3]), long([1, 2]), 0), test_utils=("test_schema",)
    )
    expand = (long([[1, 2]]), long([0]), long([0]), long([[[3], [4]]]))
    torch.library.opcheck(library.expand_drafts, expand, test_utils=tests)
    accept = (long([[1, 2]]), long([2]), long([[1, 3]]))
    torch.library.opcheck(library.acceptance_length, accept, test_utils=tests)
