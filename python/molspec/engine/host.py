"""Tensors on the host, whatever torch's default device and type are; and buffers that grow."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def integers(values: Sequence[int], dtype: torch.dtype = torch.int32) -> Tensor:
    """A tensor [value]."""
    return torch.tensor(values, dtype=dtype, device="cpu")


def grown(buffer: Tensor, rows: int) -> Tensor:
    """The buffer [row, ...] with room for so many rows: itself, or one of at least twice its size.

    What nobody has written is not read; on a device it is zero all the same.
    """
    if rows <= len(buffer):
        return buffer
    shape = max(2 * len(buffer), rows), *buffer.shape[1:]
    if buffer.is_cuda:
        larger = buffer.new_zeros(shape)
        larger[: len(buffer)] = buffer
    else:
        larger = buffer.new_empty(shape)
        # torch would copy with all its threads, which then spin for a while on the cores that the
        # engine's threads need.
        larger.numpy()[: len(buffer)] = buffer.numpy()
    return larger
