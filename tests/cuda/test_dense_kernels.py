"""The CUDA kernels of the dense operators, run as host code, against their twins."""

import pytest
import torch
from torch import Tensor

from tests import reference
from tests.cuda.emulator import Emulator
from tests.refusals import refused


def long(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def draw(seed: int, *shape: int, high: int) -> Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


def assert_same(actual: object, expected: object) -> None:
    torch.testing.assert_close(actual, expected, atol=0, rtol=0)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_left_pad(cuda: Emulator, rows: int) -> None:
    lengths = draw(rows, rows, high=9)
    arguments = draw(rows + 1, int(lengths.sum()), high=50), lengths, 7
    assert_same(cuda.ops.left_pad(*arguments), reference.left_pad(*arguments))


@pytest.mark.parametrize(
    ("hypotheses", "length", "drafts", "draft_length"),
    [(1, 1, 1, 1), (3, 5, 4, 10), (2, 200, 3, 9), (4, 0, 2, 3), (3, 4, 0, 3), (0, 3, 2, 2)],
)
def test_expand_drafts(
    cuda: Emulator, hypotheses: int, length: int, drafts: int, draft_length: int
) -> None:
    arguments = (
        draw(1, hypotheses, length, high=50),
        draw(2, hypotheses, high=9),
        draw(3, hypotheses, high=3),
        draw(4, 3, drafts, draft_length, high=50),
    )
    assert_same(cuda.ops.expand_drafts(*arguments), reference.expand_drafts(*arguments))


@pytest.mark.parametrize(("rows", "draft_length"), [(0, 4), (5, 0), (9, 10), (3, 32), (2, 97)])
def test_acceptance_length(cuda: Emulator, rows: int, draft_length: int) -> None:
    drafts = draw(1, rows, draft_length, high=50)
    predicted = torch.where(draw(2, rows, draft_length, high=12) == 0, drafts + 1, drafts)
    arguments = (drafts, draw(3, rows, high=draft_length + 1), predicted)
    assert_same(cuda.ops.acceptance_length(*arguments), reference.acceptance_length(*arguments))


def test_values_out_of_range_are_refused(cuda: Emulator) -> None:
    left_pad, expand, accept = (
        getattr(cuda.ops, name) for name in ("left_pad", "expand_drafts", "acceptance_length")
    )
    pair, drafts = long([1, 1]), long([[[1]], [[2]]])
    rows = long([[1], [1], [1]]), long([0, 0, 0]), long([1, 2, -1])
    for argument, value, call, *arguments in (
        (r"lengths\[2\]", -3, left_pad, pair, long([1, 2, -3, -9]), 0),
        (r"lengths\[1\]", 2**62, left_pad, pair, long([2, *[2**62] * 4]), 0),
        ("lengths add up", 3, left_pad, pair, long([1, 2]), 0),
        (r"query_indices\[1\]", 2, expand, *rows, drafts),
        (r"draft_lengths\[0\]", 2, accept, long([[1]]), long([2]), long([[1]])),
    ):
        refused(RuntimeError, f"^{argument} .*{value}", call, *arguments)
