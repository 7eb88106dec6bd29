"""The dense operators against their twins."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, strategies as st

from molspec.engine import ops
from tests import reference
from tests.refusals import refused

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


@given(sizes, sizes, st.integers(0, 999))
def test_acceptance_length(rows: int, draft_length: int, seed: int) -> None:
    arguments = (
        draw_ids(seed, rows, draft_length, high=2),
        draw_ids(seed + 1, rows, high=draft_length + 1),
        draw_ids(seed + 2, rows, draft_length, high=2),
    )
    assert_same(ops.acceptance_length(*arguments), reference.acceptance_length(*arguments))


ONE, NEW = long([[1]]), long([[[1]]])
ENDLESS = torch.empty(1, 2**62, 0, dtype=torch.int64)  # no token, any number of drafts


@pytest.mark.parametrize(
    ("operator", "arguments", "message"),
    [
        (ops.left_pad, (long([1]), long([1, 1]), 0), "lengths add up to 2: "),
        (ops.left_pad, (long([1]), long([*[2**62] * 4, 1]), 0), rf"lengths\[0\] is {2**62}: "),
        (ops.left_pad, (long([1]), long([1, -1]), 0), r"lengths\[1\] is -1: "),
        (ops.left_pad, (ONE, long([1]), 0), "token_ids has 2 dimensions: "),
        (ops.expand_drafts, (ONE, ONE[0], long([2]), NEW), r"query_indices\[0\] is 2: "),
        (ops.expand_drafts, (ONE, ONE[0], ONE[0], ENDLESS), f"draft_ids has {2**62} drafts"),
        (ops.expand_drafts, (ONE, long([0, 0]), ONE[0], NEW), "position_offsets has 2 entries"),
        (ops.acceptance_length, (ONE, long([2]), ONE), r"draft_lengths\[0\] is 2: "),
        (ops.acceptance_length, (ONE, ONE[0], long([[1, 2]])), r"predicted_ids .* \[1, 2\]"),
        (ops.acceptance_length, (ONE.int(), ONE[0], ONE), "draft_ids is of int32: "),
    ],
)
def test_bad_arguments_are_refused(
    operator: Callable[..., object], arguments: tuple[object, ...], message: str
) -> None:
    refused(RuntimeError, f"^{message}", operator, *arguments)


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
