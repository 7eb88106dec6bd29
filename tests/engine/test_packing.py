"""The rounding of int8 matrices against its twin."""

import pytest
import torch
from torch import Tensor

from molspec.engine import ops
from tests import reference, refused


def _packed(inner: int, by_rows: bool) -> list[Tensor]:
    size = 256 * (inner + -inner % 4)
    sizes = {"panels": size, "scales": 256, "offsets": 256, "by_rows": size * by_rows}
    types = torch.uint8, torch.float32, torch.int32, torch.uint8
    return [torch.zeros(each, dtype=t) for each, t in zip(sizes.values(), types, strict=True)]


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("inner", [1, 3, 64, 257])
def test_rounding_equals_its_twin(inner: int, by_rows: bool) -> None:
    rows = torch.randn(200, inner, generator=torch.Generator().manual_seed(inner))
    rows[:7] *= torch.tensor([0, -0.0, 1e-45, 1e-43, 1e-38, 1e30, 1e37])[:, None]
    rows[7] = torch.arange(inner) / 2 - 63.5  # ties
    found, expected = _packed(inner, by_rows), _packed(inner, by_rows)
    for first, part in (0, rows[:128]), (128, rows[128:]):
        ops.pack_int8(part, first, *found)
        reference.pack_int8(part, first, *expected)
    assert all(map(torch.equal, found, expected))
    assert len(found[0].unique()) > 2


def test_what_does_not_fit_is_refused() -> None:
    panels, scales, offsets, by_rows = _packed(8, False)
    rows = torch.ones(64, 8)
    for arguments, message in (
        ((rows.double(), 0, panels, scales, offsets, by_rows), "rows is of float64"),
        ((rows[:0, :1].expand(0, 2**62), 0, panels, scales, offsets, by_rows), "rows "),
        ((rows, 32, panels, scales, offsets, by_rows), "first is 32: "),
        ((rows, 256, panels, scales, offsets, by_rows), "first is 256: "),
        ((rows, -64, panels, scales, offsets, by_rows), "first is -64: "),
        ((rows, 0, panels[1:], scales, offsets, by_rows), "panels has 2047 entries: "),
        ((rows, 0, panels, scales[1:], offsets, by_rows), "scales has 255 entries: "),
        ((rows, 0, panels, scales, offsets[1:], by_rows), "offsets has 255 entries: "),
        ((rows, 0, panels, scales, offsets, panels[1:]), "by_rows has 2047 entries: "),
    ):
        refused(RuntimeError, message, ops.pack_int8, *arguments)
