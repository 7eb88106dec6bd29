"""Caches of keys and values [block, decoder layer, block size] that grow."""

from __future__ import annotations

from torch import Tensor


def grown(cache: Tensor, blocks: int) -> Tensor:
    """The cache with room for so many blocks: itself, or a copy of at least twice its size."""
    if blocks <= len(cache):
        return cache
    larger = cache.new_zeros(max(2 * len(cache), blocks), *cache.shape[1:])
    larger[: len(cache)] = cache
    return larger
