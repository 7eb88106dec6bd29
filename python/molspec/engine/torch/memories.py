"""What a batch's encoder wrote, by row: stored as queries come, gathered for the decoder's rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


class Memories:
    """Tensors of queries in one buffer [query, length, ...] that grows to the longest source."""

    def __init__(self, query_count: int) -> None:
        self._query_count = query_count
        self._buffer = torch.empty(query_count, 0, device="cpu")
        self._lengths = np.zeros(query_count, dtype=np.int64)
        self._gathered: tuple[bytes, tuple[Tensor, Tensor]] | None = None

    def store(self, rows: Sequence[int], values: Tensor, lengths: Sequence[int]) -> None:
        """Put values [row, length, ...] into free rows; of each, `lengths` positions count."""
        self._gathered = None
        self._lengths[list(rows)] = lengths
        old = self._buffer
        if old.shape[2:] != values.shape[2:] or old.shape[1] < values.shape[1]:
            shape = (self._query_count, values.shape[1], *values.shape[2:])
            self._buffer = values.new_zeros(shape)
            if old.shape[2:] == values.shape[2:]:
                self._buffer[:, : old.shape[1]] = old
        self._buffer[list(rows), : values.shape[1]] = values

    def gather(self, rows: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Values [row, longest, ...] and padding mask [row, longest], True where padding.

        Decoder rows mostly need the same memories as in the step before: those are copied once.
        """
        key = rows.tobytes()
        if self._gathered is None or self._gathered[0] != key:
            lengths = torch.from_numpy(self._lengths[rows])
            longest = int(lengths.max())
            trimmed = self._buffer[:, :longest]
            if np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
                values = trimmed[rows[0] : rows[-1] + 1].contiguous()
            else:
                values = trimmed.index_select(0, torch.from_numpy(rows).to(trimmed.device))
            mask = torch.arange(longest, device="cpu") >= lengths[:, None]
            self._gathered = key, (values, mask.to(trimmed.device))
        return self._gathered[1]
