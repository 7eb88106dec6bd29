"""Tensors on the host, whatever torch's default device and type are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor that nobody has written."""
    return torch.empty(shape, dtype=dtype, device="cpu")


def integers(values: Sequence[int], dtype: torch.dtype = torch.int32) -> Tensor:
    """A tensor [value]."""
    return torch.tensor(values, dtype=dtype, device="cpu")
