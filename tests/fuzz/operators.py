"""Operators by their schemas: tensors of any type, shape, value and alignment."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from molspec.engine import ops, packing
from tests import reference
from tests.engine import models, trees
from tests.fuzz.draw import Draw

_TYPES = (torch.int64, torch.int64, torch.int64, torch.int32, torch.float64, torch.float32)
_DENSE = ("left_pad", "expand_drafts", "acceptance_length")
#: Dimensions of each operator's tensors, then whether an integer follows.
_DIMENSIONS = {
    "left_pad": ((1, 1), True),
    "expand_drafts": ((2, 1, 1, 3), False),
    "acceptance_length": ((2, 1, 2), False),
}


def dense(draw: Draw) -> None:
    """An operator raises RuntimeError, or its result equals the twin's."""
    name = draw.choice(_DENSE)
    dimensions, with_integer = _DIMENSIONS[name]
    sizes = [draw.below(4) for _ in range(3)]
    tensors = [_tensor(draw, count, sizes) for count in dimensions]
    arguments: list[Any] = [*tensors, *([draw.integer()] if with_integer else [])]
    try:
        found = getattr(ops, name)(*arguments)
    except RuntimeError as error:
        assert str(error)
        return
    torch.testing.assert_close(found, getattr(reference, name)(*arguments), atol=0, rtol=0)


def _tensor(draw: Draw, dimensions: int, sizes: list[int]) -> Tensor:
    shape = [draw.choice(sizes) for _ in range(dimensions if draw.below(16) else draw.below(4))]
    count = int(torch.tensor(shape).prod()) if shape else 1
    kind = torch.int64 if draw.below(8) else draw.choice(_TYPES)
    values = torch.tensor([draw.integer() for _ in range(count)]).to(kind).reshape(shape)
    if draw.below(16) == 0:
        return values.mT if dimensions > 1 and values.dim() > 1 else values.flip(0)
    return values


def _batches() -> list[trees.Batch]:
    batches = []
    for convention in list(models.CONVENTIONS)[::3]:
        spec = models.spec_of(convention)
        for dtype in (torch.float32, torch.bfloat16, torch.int8):
            packed = packing.pack(spec, models.random_weights(spec), dtype)
            batches.append(trees.random_batch(packed, [5, 17], 12, seed=1))
    return batches


_BATCHES = _batches()
_PARTS = ("source_ids", "source_offsets", "memories", "nodes", "path_slots", "table", "workspace")


def engine(draw: Draw) -> None:
    """A damaged argument is refused, or changes values; memory outside stays untouched."""
    batch = draw.choice(_BATCHES)
    workspace = batch.workspace()
    for _ in range(1 + draw.below(2)):
        part = draw.choice(_PARTS)
        change: Callable[[Tensor], Tensor] = lambda tensor: _changed(draw, tensor)  # noqa: E731
        if part == "workspace":
            workspace = change(workspace)
        elif part == "table":
            table = change(batch.packed.table)
            batch = replace(batch, packed=replace(batch.packed, table=table))
        else:
            batch = replace(batch, **{part: change(getattr(batch, part))})
    with suppress(RuntimeError):
        _run(batch, workspace)
    rows, positions = draw.integer(), draw.integer()
    with suppress(RuntimeError):
        assert ops.workspace_size(batch.packed.weights, batch.packed.table, rows, positions) > 0


def _run(batch: trees.Batch, workspace: Tensor) -> None:
    layers, size = batch.packed.spec.decoder_layers, batch.packed.block_size
    memory_cache, kv_cache = torch.zeros(3, layers, size), torch.zeros(2, layers, size)
    model = (batch.packed.weights, batch.packed.table)
    source = (batch.source_ids, batch.source_offsets, batch.memories, memory_cache, workspace)
    log_probs = torch.zeros(12, batch.packed.spec.target_vocab_size)
    with suppress(RuntimeError):
        ops.encode(*model, *source)
    tree = (batch.nodes, batch.path_slots, batch.memories, memory_cache, kv_cache)
    ops.decoder_step(*model, *tree, workspace, log_probs)


def _changed(draw: Draw, tensor: Tensor) -> Tensor:
    kind = draw.below(8)
    if kind < 4 and tensor.numel():
        changed = tensor.clone()
        if tensor.dtype in (torch.int32, torch.int64):
            least, most = torch.iinfo(tensor.dtype).min, torch.iinfo(tensor.dtype).max
            index = draw.below(min(tensor.numel(), 65536))
            changed.view(-1)[index] = max(least, min(most, draw.integer()))
        return changed
    if kind == 4:
        return tensor[draw.below(len(tensor) + 1) :] if tensor.dim() else tensor
    if kind == 5:
        return tensor[: draw.below(len(tensor) + 1)] if tensor.dim() else tensor
    if kind == 6:
        return _misaligned(tensor)
    return tensor.to(draw.choice(_TYPES))


def _misaligned(tensor: Tensor) -> Tensor:
    if not tensor.numel():
        return tensor
    raw = bytearray(1 + tensor.numel() * tensor.element_size())
    shifted = torch.frombuffer(raw, dtype=tensor.dtype, offset=1, count=tensor.numel())
    return shifted.reshape(tensor.shape)
