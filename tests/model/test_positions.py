"""Relative positions against T5's own buckets."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from molspec.model.positions import relative_biases
from molspec.model.spec import ModelSpec

SIZES = [(32, 128), (8, 20), (4, 3), (5, 7), (64, 1000)]


def buckets(stack: str, count: int, max_distance: int, length: int) -> list[int]:
    spec = ModelSpec(
        9, 9, positions="relative", relative_buckets=count, relative_max_distance=max_distance
    )
    table = torch.arange(count)[:, None].expand(count, 2)
    found = relative_biases(table, spec, stack, length)
    assert found.shape == (2, 2 * length - 1)
    assert torch.equal(found[0], found[1])
    return found[0].tolist()


@pytest.mark.parametrize(("count", "max_distance"), SIZES)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_distances_fall_where_t5_puts_them(stack: str, count: int, max_distance: int) -> None:
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    length = 1200
    own = modeling.T5Attention._relative_position_bucket(
        torch.arange(1 - length, length), stack == "encoder", count, max_distance
    )
    assert buckets(stack, count, max_distance, length) == own.tolist()


def test_a_distance_has_a_bucket_until_they_grow() -> None:
    found = buckets("decoder", 32, 128, 300)[299::-1]  # of keys 0, 1, 2, ... before the query
    assert found[:16] == list(range(16))
    assert found[112] < 31
    assert found[128:] == [31] * 172
    assert all(later - earlier in (0, 1) for earlier, later in pairwise(found))
    forwards = buckets("encoder", 32, 128, 300)[299:]
    assert forwards[:9] == [0, *range(17, 25)]
    assert set(forwards[128:]) == {31}
