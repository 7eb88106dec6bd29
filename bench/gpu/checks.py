"""Checks kernels against their references, and that rows do not depend on other rows.

Every group is a part of its own, so that the driver runs it in a process of its own: an illegal
address ends that process and no other check.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from compare import all_equal, compared, joined
from place import DTYPES, Place, Row
from tests import reference
from tests.engine.models import CONVENTIONS, random_weights, spec_of
from tests.engine.trees import Batch, random_batch
from torch import Tensor

from molspec.engine.packing import BLOCK_POSITIONS, PackedModel, pack, round_up
from molspec.model.spec import ModelSpec

#: Largest allowed difference of log-probs from the reference, which rounds the same inputs.
_TOLERANCES = {"float32": 1e-4, "bfloat16": 0.06}
#: Sizes of the bundled models.
_BUNDLED = ModelSpec(
    234,
    234,
    d_model=256,
    head_count=8,
    encoder_layers=1,
    decoder_layers=2,
    feed_forward=512,
    max_positions=96,
)


def on_device(batch: Batch, place: Place) -> Tensor:
    """Log-probs from the device's operators."""
    device, ops = place.tensors, place.ops
    packed = batch.packed
    moved = replace(
        batch,
        packed=replace(packed, weights=packed.weights.to(device)),
        **{
            name: getattr(batch, name).to(device)
            for name in ("source_ids", "source_offsets", "memories", "nodes", "path_slots")
        },
    )
    memory_cache, kv_cache = (cache.to(device) for cache in batch.caches())
    workspace = moved.workspace(ops).to(device)
    model = (moved.packed.weights, moved.packed.table)
    log_probs = torch.full((len(batch.nodes), packed.spec.target_vocab_size), torch.nan)
    log_probs = log_probs.to(device)
    sources = (moved.source_ids, moved.source_offsets, moved.memories, memory_cache, workspace)
    ops.encode(*model, *sources)
    nodes = (moved.nodes, moved.path_slots, moved.memories, memory_cache, kv_cache)
    no_hidden_states = torch.zeros(0, packed.spec.d_model, device=device)
    ops.decoder_step(*model, *nodes, workspace, log_probs, no_hidden_states)
    if place.has_rounds:
        ops.refuse_fault(workspace)
    return log_probs.cpu()


def _packed(convention: str, dtype: str) -> PackedModel:
    spec = spec_of(convention)
    return pack(spec, random_weights(spec), DTYPES[dtype])


def engine_batch(convention: str, dtype: str, node_count: int) -> Batch:
    """A random batch of a tiny model."""
    return random_batch(_packed(convention, dtype), [5, 17, 33, 96], node_count, seed=node_count)


def _checked(what: str, batch: Batch, dtype: str, place: Place, rows: range) -> Iterator[Row]:
    """Rows of a batch against each of them alone, and these against the reference."""
    together = on_device(batch, place)[list(rows)]
    batches = [batch.alone(row) for row in rows]
    alone = joined([on_device(each, place)[-1] for each in batches])
    yield compared(f"{what}, {len(rows)} rows alone and together", together, alone)
    expected = joined([each.expected()[0][-1] for each in batches])
    yield compared(f"{what}, {len(rows)} rows", alone, expected, _TOLERANCES[dtype])


def engine(place: Place, dtype: str) -> Iterator[Row]:
    """`encode` and `decoder_step` of all conventions, with the narrow kernels."""
    for convention in list(CONVENTIONS)[: 2 if place.few else None]:
        for count in (30,) if place.few else (30, 150):
            batch = engine_batch(convention, dtype, count)
            what = f"{convention}, {dtype}, {count} nodes"
            yield compared(what, on_device(batch, place), batch.expected()[0], _TOLERANCES[dtype])
            yield from _checked(what, batch, dtype, place, range(0, count, max(1, count // 8)))


def wide(place: Place, dtype: str) -> Iterator[Row]:
    """The same with so many nodes that every linear layer takes the wide kernel.

    A row alone takes the narrow one: both must sum in the same order.
    """
    conventions = (
        *("post-norm", "pre-norm", "whole panels", "gated", "t5 v1.1", "widest head"),
        *("std norm", "rotary and added positions", "relative positions by layer"),
    )
    count = 150 if place.few else 4500
    if place.emulator is not None:
        place.emulator.set(seed=1, multiprocessors=2)
    for convention in conventions[: 2 if place.few else None]:
        batch = random_batch(_packed(convention, dtype), [33, 40, 96, 17], count, seed=3)
        what = f"{convention}, {dtype}, {count} nodes"
        yield from _checked(what, batch, dtype, place, range(7, count, count // 12))


def places(place: Place, dtype: str) -> Iterator[Row]:
    """One row in sixteen places of a tile, and among sixteen kinds of neighbours.

    The matrix unit must not let a row's sum depend on either (docs/decisions/0011-cuda-engine.md).
    """
    spec = spec_of("whole panels") if place.few else _BUNDLED
    packed = pack(spec, random_weights(spec), DTYPES[dtype])
    rows = range(4 if place.few else 16)
    for what, batches in (
        ("places", [_among(packed, before=at, seed=1) for at in rows]),
        ("neighbours", [_among(packed, before=5, seed=seed) for seed in rows]),
    ):
        found = [on_device(batch, place)[target] for batch, target in batches]
        expected = joined([found[0]] * len(found))
        yield compared(f"one row in {len(rows)} {what}, {dtype}", joined(found), expected)


def _among(packed: PackedModel, before: int, seed: int) -> tuple[Batch, int]:
    """A path of three nodes behind `before` others, of 48, and the row of its last node."""
    draw = random.Random(seed)
    spec, count, path = packed.spec, 48, [5, 7, 9]
    sources = [[4 + i % 9 for i in range(20)], [draw.randrange(spec.source_vocab_size)] * 9]
    nodes: list[list[int]] = []
    slots: list[int] = []
    paths: list[tuple[int, list[int]]] = []
    for row in range(count):
        depth = row - before if before <= row < before + len(path) else 0
        ours = before <= row < before + len(path)
        token = path[depth] if ours else draw.randrange(spec.target_vocab_size)
        nodes.append([token, depth, len(slots), 0 if ours else 1])
        slots += range(before, row + 1) if ours else [row]
        paths.append((0, path[: depth + 1]) if ours else (1, [token]))
    batch = Batch(
        packed,
        torch.tensor([i for source in sources for i in source], dtype=torch.int32),
        torch.tensor([0, 20, 29], dtype=torch.int32),
        torch.tensor([[20, 0, 1], [9, 2, 0]], dtype=torch.int32),
        torch.tensor(nodes, dtype=torch.int32),
        torch.tensor(slots, dtype=torch.int32),
        paths,
        round_up(count, BLOCK_POSITIONS),
    )
    return batch, before + len(path) - 1


def dense(place: Place) -> Iterator[Row]:
    """The operators of padded batches, and `rank_tokens`."""
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int, high: int = 50) -> Tensor:
        return torch.randint(0, high, shape, generator=generator)

    lengths = draw(700, high=90)
    drafts = draw(33, 23, 17)
    predicted = torch.where(draw(900, 40, high=12) == 0, 1, 2)
    cases: dict[str, tuple[Any, ...]] = {
        "left_pad": (draw(int(lengths.sum())), lengths, 7),
        "expand_drafts": (draw(80, 60), draw(80), draw(80, high=33), drafts),
        "acceptance_length": (torch.full((900, 40), 2), draw(900, high=41), predicted),
    }
    for name, arguments in cases.items():
        moved = [a.to(place.tensors) if isinstance(a, Tensor) else a for a in arguments]
        actual = getattr(place.ops, name)(*moved)
        expected = getattr(reference, name)(*arguments)
        yield all_equal(name, _tuple(actual), _tuple(expected))
    if place.has_rounds:
        yield _ranks_tokens(-draw(300, 257, high=40).float(), place)


def _ranks_tokens(log_probs: Tensor, place: Place) -> Row:
    nodes = torch.zeros(len(log_probs), 4, dtype=torch.int32)
    expected = torch.zeros(len(nodes), 26, dtype=torch.int32), torch.zeros(len(nodes), 26)
    found = tuple(tensor.to(place.tensors) for tensor in expected)
    reference.rank_tokens(nodes, log_probs, expected)
    place.ops.rank_tokens(nodes.to(place.tensors), log_probs.to(place.tensors), found)
    return all_equal("rank_tokens", found, expected)


def _tuple(value: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)
