"""The CUDA engine, run as host code: equals its twin, and is row-invariant."""

import pytest
import torch

from tests import refused
from tests.cuda.emulator import Emulator
from tests.engine.models import CONVENTIONS
from tests.engine.trees import NODE_FAULTS, SOURCE_FAULTS, batch_of


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_engine_equals_reference(cuda: Emulator, convention: str) -> None:
    batch = batch_of(convention, "uneven")
    torch.testing.assert_close(batch.run(cuda.ops), batch.expected()[0], atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", ["uneven", "wide"])
def test_every_dtype_matches_reference(cuda: Emulator, shape: str, dtype: torch.dtype) -> None:
    cuda.set(seed=1, multiprocessors=1 if shape == "wide" else 132)
    batch = batch_of("whole panels", shape, dtype)
    tolerance = {torch.float32: 2e-5, torch.bfloat16: 0.06}[dtype]
    torch.testing.assert_close(
        batch.run(cuda.ops), batch.expected()[0], atol=tolerance, rtol=tolerance
    )


@pytest.mark.parametrize("convention", ["post-norm", "t5 v1.1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_node_does_not_depend_on_the_others(
    cuda: Emulator, dtype: torch.dtype, convention: str
) -> None:
    batch = batch_of(convention, "wide", dtype)
    cuda.set(seed=1, multiprocessors=1)  # wide kernels
    together = batch.run(cuda.ops)
    cuda.set(seed=2)
    for row in (3, 69):
        assert torch.equal(batch.alone(row).run(cuda.ops)[-1], together[row])  # narrow kernels


@pytest.mark.parametrize("convention", ["post-norm", "pre-norm", "t5 v1.1"])
def test_hidden_states_are_stored_by_slot(cuda: Emulator, convention: str) -> None:
    batch_of(convention, "uneven").check_hidden_states(2e-5, cuda.ops)


def test_gaps_are_skipped(cuda: Emulator) -> None:
    batch = batch_of("post-norm", "uneven")
    expected = batch.run(cuda.ops)
    count = len(batch.nodes)
    gap = torch.tensor([[0, 0, 0, -1]], dtype=torch.int32)
    batch.nodes = torch.cat([gap, batch.nodes, gap.expand(9, 4)])
    padded = batch.run(cuda.ops)
    assert torch.equal(padded[1 : 1 + count], expected)
    assert padded[0].isnan().all()
    assert padded[1 + count :].isnan().all()


@pytest.mark.parametrize("message", NODE_FAULTS)
def test_invalid_node_is_skipped_and_reported(cuda: Emulator, message: str) -> None:
    batch = batch_of("post-norm", "uneven")
    workspace = batch.workspace(cuda.ops)
    good = batch.run(cuda.ops, workspace=workspace)
    cuda.ops.refuse_fault(workspace)
    NODE_FAULTS[message](batch)
    bad = batch.run(cuda.ops, workspace=workspace)
    refused(RuntimeError, message, cuda.ops.refuse_fault, workspace)
    assert bad.isnan().any(dim=1).any()
    assert good.isfinite().all()


@pytest.mark.parametrize("message", SOURCE_FAULTS)
def test_invalid_source_is_skipped_and_reported(cuda: Emulator, message: str) -> None:
    batch = batch_of("post-norm", "uneven")
    memory_cache, _ = batch.caches()
    workspace = batch.workspace(cuda.ops)
    SOURCE_FAULTS[message](batch)
    model = batch.packed.weights, batch.packed.table
    sources = batch.source_ids, batch.source_offsets, batch.memories
    cuda.ops.encode(*model, *sources, memory_cache, workspace)
    refused(RuntimeError, message, cuda.ops.refuse_fault, workspace)


def test_a_small_workspace_is_refused(cuda: Emulator) -> None:
    batch = batch_of("post-norm", "uneven")
    with pytest.raises(RuntimeError, match="workspace has 64 bytes: expected"):
        batch.run(cuda.ops, workspace=torch.empty(64, dtype=torch.uint8))


@pytest.mark.parametrize("barrier", [0, 1])
def test_the_engine_needs_each_of_its_barriers(cuda: Emulator, barrier: int) -> None:
    batch = batch_of("pre-norm", "uneven", torch.bfloat16)
    expected = batch.run(cuda.ops)
    cuda.set(seed=5, skipped_barrier=barrier)
    assert not torch.equal(batch.run(cuda.ops), expected)
