"""decoder_step: one pass of the decoder over the nodes of one query.

A step must read every weight of the decoder once, and the keys and values of every node's path and
memory once for all nodes; it must multiply every weight with every node.
"""

from collections.abc import Iterator
from functools import partial

import torch

import ceilings
from case import Case, Work
from models import DTYPES, PREFIX_LENGTH, SOURCE_LENGTH, batch, packed_model, shapes
from molspec.engine import ops
from molspec.model.spec import ModelSpec

NODE_COUNTS = (1, 2, 4, 6, 8, 16, 32, 128)


def cases() -> Iterator[Case]:
    """Every bundled model's shape in every dtype, from one node to many."""
    for name, spec in shapes():
        for dtype_name, dtype in DTYPES.items():
            packed = packed_model(spec, dtype)
            read = ceilings.reader(weight_count(spec) * dtype.itemsize)
            multiply = ceilings.multiplier(dtype)
            for node_count in NODE_COUNTS:
                step = batch(packed, node_count)
                yield Case(
                    "decoder_step",
                    f"{name} {dtype_name} {node_count} nodes",
                    partial(ops.decoder_step, *step.step_arguments),
                    work=Work(*work(spec, dtype, node_count), read, multiply),
                )


def weight_count(spec: ModelSpec) -> int:
    """Weights of a step's matrices; the memory's keys and values are not computed again."""
    attentions = 6 * spec.d_model**2
    layer = attentions + 2 * spec.d_model * spec.feed_forward
    return spec.decoder_layers * layer + spec.d_model * spec.target_vocab_size


def work(spec: ModelSpec, dtype: torch.dtype, node_count: int) -> tuple[int, int]:
    """Bytes that a step must read, and its multiplications and additions."""
    positions = PREFIX_LENGTH + node_count + SOURCE_LENGTH
    cached = 2 * spec.decoder_layers * spec.d_model * positions
    byte_count = weight_count(spec) * dtype.itemsize + cached * torch.float32.itemsize
    seen = int((batch_positions(node_count) + 1 + SOURCE_LENGTH).sum())
    attention = 4 * spec.decoder_layers * spec.d_model * seen
    return byte_count, 2 * weight_count(spec) * node_count + attention


def batch_positions(node_count: int) -> torch.Tensor:
    """Positions of the nodes of a balanced binary tree after the prefix."""
    return PREFIX_LENGTH + torch.arange(1, node_count + 1).log2().floor().long()
