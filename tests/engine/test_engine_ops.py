"""encode and decoder_step against their twin."""

import itertools
from dataclasses import replace

import pytest
import torch

from molspec.engine import ops, packing
from tests import refused
from tests.engine import models, trees

DTYPES = (torch.float32, torch.bfloat16, torch.int8)


@pytest.mark.parametrize("convention", models.CONVENTIONS)
@pytest.mark.parametrize(
    "shape", ["one token, one node", "ragged", "more nodes than a chunk", "longest"]
)
def test_native_equals_reference(convention: str, shape: str) -> None:
    batch = trees.batch_of(convention, shape)
    torch.testing.assert_close(batch.run(), batch.expected()[0], atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("convention", models.CONVENTIONS)
def test_int8_equals_reference_with_rounded_inputs_near_float32(convention: str) -> None:
    batch = trees.batch_of(convention, "ragged", torch.int8)
    found, expected = batch.run(), batch.expected()[0]
    # A value between two steps may round either way; everything else is exact.
    torch.testing.assert_close(found, expected, atol=0.1, rtol=0)
    assert (found - expected).abs().median() < 2e-3
    assert 0 < (expected - trees.batch_of(convention, "ragged").run()).abs().max() < 0.3


@pytest.mark.parametrize(
    ("convention", "dtype"),
    [
        *((convention, torch.float32) for convention in models.CONVENTIONS),
        *itertools.product(("post-norm", "gated", "t5 v1.1"), (torch.bfloat16, torch.int8)),
    ],
)
def test_nothing_hides_nan(convention: str, dtype: torch.dtype) -> None:
    spec = models.spec_of(convention)
    hidden = []
    for name in spec.weight_shapes():
        weights = models.random_weights(spec)
        weights[name][..., 1] = float("nan")
        batch = trees.random_batch(packing.pack(spec, weights, dtype), [5, 17], 12, seed=2)
        if batch.run().isfinite().any():
            hidden.append(name)
    assert hidden == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("convention", ["post-norm", "t5 v1.1"])
def test_nodes_do_not_depend_on_other_nodes(convention: str, dtype: torch.dtype) -> None:
    batch = trees.batch_of(convention, "more nodes than a chunk", dtype)
    together = batch.run()
    for row in range(0, len(batch.paths), 7):
        assert torch.equal(batch.alone(row).run()[-1], together[row])


def test_a_step_without_nodes_gives_no_rows() -> None:
    batch = trees.batch_of("post-norm", "one token, one node")
    batch.nodes = batch.nodes[:0]
    assert batch.run().shape == (0, models.TINY.target_vocab_size)


SHIFTED = torch.frombuffer(bytearray(9), dtype=torch.int32, count=2, offset=1)
BAD = {
    **trees.NODE_FAULTS,
    **trees.SOURCE_FAULTS,
    "table entry 21 is offset": lambda b: b.packed.table.__setitem__(21, 1 << 40),
    "head_count is 0": lambda b: b.packed.table.__setitem__(3, 0),
    "nodes is of int64: expected int32": lambda b: setattr(b, "nodes", b.nodes.long()),
    "source_offsets is not aligned to 4 bytes": lambda b: setattr(b, "source_offsets", SHIFTED),
    "path of 17 slots in 1 blocks of 16: expected no slot": lambda b: (
        setattr(b, "nodes", torch.tensor([[0, 16, 0, 0]], dtype=torch.int32)),
        setattr(b, "path_slots", torch.zeros(17, dtype=torch.int32)),
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_refused(message: str) -> None:
    batch = trees.batch_of("post-norm", "uneven")
    BAD[message](batch)
    refused(RuntimeError, message, batch.run)


@pytest.mark.parametrize(("inner", "fits"), [(133_140, True), (133_144, False)])
def test_sums_of_int8_never_exceed_32_bits(inner: int, fits: bool) -> None:
    spec = replace(models.TINY, feed_forward=inner, encoder_layers=1, decoder_layers=1)
    weights = models.random_weights(spec)
    for name in weights:
        if "feed_forward.inner" in name:
            weights[name] = torch.full_like(weights[name], float(name.endswith("bias")))
        elif "feed_forward.outer.weight" in name:
            weights[name] = torch.full_like(weights[name], 1e-5)
    batch = trees.random_batch(packing.pack(spec, weights, torch.int8), [3], 2, seed=0)
    if fits:
        torch.testing.assert_close(batch.run(), batch.expected(weights)[0], atol=0.1, rtol=0)
        return
    message = "an int8 matrix has 133144 inner positions: expected at most 133143"
    refused(RuntimeError, message, batch.run)


def test_a_small_or_misaligned_workspace_is_refused() -> None:
    batch = trees.batch_of("post-norm", "one token, one node")
    with pytest.raises(RuntimeError, match="workspace has 64 bytes: expected"):
        batch.run(workspace=torch.empty(64, dtype=torch.uint8))
    memory_cache, kv_cache = batch.caches()
    model = (batch.packed.weights, batch.packed.table)
    workspace = torch.zeros(len(batch.workspace()) + 4, dtype=torch.uint8)[4:]
    source = (batch.source_ids, batch.source_offsets, batch.memories, memory_cache)
    tree = (batch.nodes, batch.path_slots, batch.memories, memory_cache, kv_cache)
    log_probs = torch.zeros(1, models.TINY.target_vocab_size)
    for operator, arguments in (
        (ops.encode, (*model, *source, workspace)),
        (ops.decoder_step, (*model, *tree, workspace, log_probs)),
    ):
        refused(RuntimeError, "workspace is not aligned to 64 bytes", operator, *arguments)


@pytest.mark.parametrize(("rows", "positions"), [(2**62, 1), (1, 2**62), (0, 1), (1, -1)])
def test_workspace_sizes_out_of_range_are_refused(rows: int, positions: int) -> None:
    packed = trees.batch_of("post-norm", "one token, one node").packed
    with pytest.raises(RuntimeError, match=r"(rows|positions) is -?\d+: expected 1 to 1048576"):
        ops.workspace_size(packed.weights, packed.table, rows, positions)


@pytest.mark.filterwarnings("ignore")
def test_operators_pass_opcheck() -> None:
    batch = trees.batch_of("post-norm", "ragged")
    memory_cache, kv_cache = (cache.nan_to_num() for cache in batch.caches())
    model = (batch.packed.weights, batch.packed.table)
    workspace = torch.zeros_like(batch.workspace())
    tests = ("test_schema", "test_faketensor")
    encode = (*model, batch.source_ids, batch.source_offsets, batch.memories, memory_cache)
    torch.library.opcheck(torch.ops.molspec.encode, (*encode, workspace), test_utils=tests)
    log_probs = torch.zeros(len(batch.nodes), models.TINY.target_vocab_size)
    tree = (batch.nodes, batch.path_slots, batch.memories, memory_cache, kv_cache)
    step = (*model, *tree, workspace, log_probs, log_probs.new_empty(0, 0))
    torch.library.opcheck(torch.ops.molspec.decoder_step, step, test_utils=tests)


@pytest.mark.parametrize(("dtype", "tolerance"), list(zip(DTYPES, (2e-5, 0.06, 0.2), strict=True)))
@pytest.mark.parametrize("convention", ["post-norm", "pre-norm", "t5 v1.1"])
def test_hidden_states_are_stored_by_slot(
    convention: str, dtype: torch.dtype, tolerance: float
) -> None:
    trees.batch_of(convention, "ragged", dtype).check_hidden_states(tolerance)


def test_hidden_states_with_too_few_rows_are_refused() -> None:
    batch = trees.batch_of("post-norm", "one token, one node")
    with pytest.raises(RuntimeError, match=r"hidden_states has shape \[3, \d+\]: expected no rows"):
        batch.run(hidden_states=torch.zeros(3, batch.packed.spec.d_model))
