"""Compares the buckets of relative positions with those of T5."""

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
    biases = relative_biases(table, spec, stack, length)
    assert biases.shape == (2, 2 * length - 1)
    assert torch.equal(biases[0], biases[1])
    return biases[0].tolist()


@pytest.mark.parametrize(("count", "max_distance"), SIZES)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_buckets_equal_those_of_t5(stack: str, count: int, max_distance: int) -> None:
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    length = 1200
    expected = modeling.T5Attention._relative_position_bucket(
        torch.arange(1 - length, length), stack == "encoder", count, max_distance
    )
    assert buckets(stack, count, max_distance, length) == expected.tolist()
