"""Finds rotary positions: how a module's first attention turns its queries and keys."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from molspec.drop_in import recording, stacks


class Rotation(NamedTuple):
    """The columns of a head, first those of all pairs; cosines and sines of every position."""

    order: Tensor
    table: Tensor


def find_rotation(stack: stacks.Stack) -> Rotation | None:
    """Find rotary positions in a stack's first attention, if it has any.

    All kinds of angles are found, as the table is read from what is recorded.
    """
    if _rotation(stack.recorder, stack.attention_width) is None:
        return None
    return _rotation(stack.record_longest(), stack.attention_width)


def _rotation(recorder: recording.Recorder, width: int) -> Rotation | None:
    if recorder.query is None or recorder.query[..., 0, :].numel() != width:
        return None
    query = recorder.query.reshape(-1, *recorder.query.shape[-2:])
    linears = (step for step in recorder.steps if step.is_linear)
    parts = [piece.result for step in linears for piece in stacks.pieces(step, width)][:3]
    for part in parts:
        if part.shape != (query.shape[1], width):
            continue
        heads = part.unflatten(1, (len(query), -1)).transpose(0, 1)
        for order, pair_count in _orders(query.shape[2]):
            order = order.to(query.device)
            turns = _turns(heads[..., order], query[..., order], pair_count)
            if turns is not None:
                # Relative positions matter: a pair that keeps its angle is not turned.
                moving = ((turns - turns[:1]).abs() > stacks.TOLERANCE).any(dim=0)
                left, right, rest = order.tensor_split((pair_count, 2 * pair_count))
                still = left[~moving], right[~moving], rest
                order = torch.cat((left[moving], right[moving], *still))
                turns = turns[:, moving]
                table = torch.cat((turns.real, turns.imag), dim=1)
                return Rotation(order, table) if bool(moving.any()) else None
    return None


def _orders(columns: int) -> Iterator[tuple[Tensor, int]]:
    """The columns of a head, first those of pairs: (2i, 2i + 1), or two halves of some columns."""
    every = torch.arange(columns, device="cpu")
    if columns % 2 == 0:
        yield torch.cat((every[0::2], every[1::2])), columns // 2
    for count in range(columns // 2, 0, -1):
        yield every, count


def _turns(heads: Tensor, query: Tensor, pair_count: int) -> Tensor | None:
    """The complex numbers [position, pair] that turn heads to the query, of equal size."""
    before, after = (
        torch.complex(x[..., :pair_count], x[..., pair_count : 2 * pair_count])
        for x in (heads, query)
    )
    turns = (after * before.conj()).sum(dim=0) / before.abs().square().sum(dim=0)
    size = turns.abs()
    turned, rest = turns * before, size[0, 0] * heads[..., 2 * pair_count :]
    fits = stacks.is_same(torch.cat((turned.real, turned.imag, rest), dim=-1), query)
    return turns / size if fits and stacks.is_same(size, size[:1, :1].expand_as(size)) else None
