"""The decoder's layers as one kernel of clusters: the bits of the kernels that it replaces."""

from typing import Any

import pytest
import torch
from torch import Tensor

from molspec.engine.packing import pack
from molspec.model.spec import ModelSpec
from tests.cuda.emulator import Emulator
from tests.engine.models import random_weights
from tests.engine.trees import Batch, batch_of, random_batch

SWITCH = "MOLSPEC_CLUSTER_STEP"
#: Every sublayer, norm and size that the kernel can have.
CASES: dict[str, dict[str, Any]] = {
    "post-norm": {"positions": "none", "rotary_columns": 16, "embedding_norm": True},
    "pre-norm": {"norm": "pre", "norm_kind": "rms", "positions": "relative", "gated": True}
    | {"decoder_layers": 1, "feed_forward": 1024},
}


def batch_in(case: str, lengths: list[int], node_count: int) -> Batch:
    """A batch of a model whose sizes a kernel takes."""
    sizes = {"encoder_layers": 1, "decoder_layers": 2, "feed_forward": 512, "max_positions": 48}
    spec = ModelSpec(70, 70, d_model=256, head_count=8, **{**sizes, **CASES[case]})
    return random_batch(pack(spec, random_weights(spec), torch.bfloat16), lengths, node_count, 3)


def step(cuda: Emulator, batch: Batch) -> tuple[Tensor, Tensor]:
    """Log-probs, and hidden states by slot."""
    hidden_states = torch.full((batch.slot_count, batch.packed.spec.d_model), torch.nan)
    return batch.run(cuda.ops, hidden_states=hidden_states), hidden_states


def same(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> bool:
    pairs = zip(found, expected, strict=True)
    return all(torch.equal(*(each.view(torch.int32) for each in pair)) for pair in pairs)


@pytest.mark.parametrize(
    ("case", "lengths", "node_count"),
    [("post-norm", [7, 3], 18), ("pre-norm", [7], 34)],  # two clusters; two groups of rows in one
)
def test_clusters_change_no_bit(
    cuda: Emulator, case: str, lengths: list[int], node_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = batch_in(case, lengths, node_count)
    expected = step(cuda, batch)
    monkeypatch.setenv(SWITCH, "1")
    cuda.set(seed=2)
    assert same(step(cuda, batch), expected)
    assert expected[0].isfinite().all()


def test_clusters_need_their_barriers(cuda: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_in("post-norm", [3], 5)
    expected = step(cuda, batch)
    monkeypatch.setenv(SWITCH, "1")
    cuda.set(seed=5, skipped_barrier=7)
    try:
        found = step(cuda, batch)
    except RuntimeError:  # a barrier that not every thread reached
        return
    assert not same(found, expected)


def test_other_sizes_take_the_other_kernels(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = batch_of("post-norm", "two nodes", torch.bfloat16)
    expected = step(cuda, batch)
    monkeypatch.setenv(SWITCH, "1")
    assert same(step(cuda, batch), expected)
