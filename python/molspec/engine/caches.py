"""Caches of keys and values [block, decoder layer, block size] that grow."""

from __future__ import annotations

from torch import Tensor


def grown(cache: Tensor, blocks: int) -> Tensor:
    """The cache with room for so many blocks: itself, or a copy of at least twice its size.

    What nobody has written is not read; on a device it is zero all the same.
    """
    if blocks <= len(cache):
        return cache
    shape = max(2 * len(cache), blocks), *cache.shape[1:]
    if cache.is_cuda:
        larger = cache.new_zeros(shape)
        larger[: len(cache)] = cache
    else:
        larger = cache.new_empty(shape)
        # torch would copy with all its threads, which then spin for a while on the cores that the
        # engine's threads need.
        larger.numpy()[: len(cache)] = cache.numpy()
    return larger
