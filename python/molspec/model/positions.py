"""Positions: rows that are added to embeddings, angles of rotations, biases by distance."""

import math
from typing import Any

import torch
from torch import Tensor

from molspec.model.spec import ModelSpec


def sinusoidal_positions(length: int, d_model: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the table [length, d_model] of Vaswani et al. 2017, section 3.5.

    Even columns are sines, odd columns cosines. Computed in float64 on the CPU, rounded to `dtype`.
    """
    double: Any = {"dtype": torch.float64, "device": "cpu"}
    rates = torch.exp(torch.arange(0, d_model, 2, **double) * (-math.log(10000.0) / d_model))
    angles = torch.arange(length, **double)[:, None] * rates
    table = torch.empty(length, d_model, **double)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()[:, : d_model // 2]
    return table.to(dtype)


def rotations(length: int, columns: int, theta: float = 10000.0) -> Tensor:
    """Return cosines and then sines [length, columns] of the angles p * theta ** (-2i / columns).

    The angles are float32, as in all libraries.
    """
    single: Any = {"dtype": torch.float32, "device": "cpu"}
    rates = 1 / theta ** (torch.arange(0, columns, 2, **single) / columns)
    angles = torch.outer(torch.arange(length, **single), rates).double()
    return torch.cat((angles.cos(), angles.sin()), dim=1).float()


def pairs_apart(rows: Tensor, head_count: int) -> Tensor:
    """Reorder a query's or key's rows [head * column, ...]: pairs (2i, 2i + 1) become halves."""
    pairs: Tensor = rows.unflatten(0, (head_count, -1, 2))
    return pairs.transpose(1, 2).flatten(0, 2)


def rotated(heads: Tensor, table: Tensor) -> Tensor:
    """Turn columns of heads [..., length, column] by the angles of a table [..., length, columns].

    Column i and column columns / 2 + i are the two coordinates of a point. Others stay.
    """
    cosines, sines = table.chunk(2, dim=-1)
    half = cosines.shape[-1]
    left, right, rest = heads.split([half, half, heads.shape[-1] - 2 * half], dim=-1)
    turned = left * cosines - right * sines, right * cosines + left * sines, rest
    result: Tensor = torch.cat(turned, dim=-1).to(heads.dtype)
    return result


def relative_biases(table: Tensor, spec: ModelSpec, stack: str, length: int) -> Tensor:
    """Return biases [head, 2 * length - 1] of keys 1 - length .. length - 1 after the query.

    `table` [bucket, head] has the learned bias of each head for every bucket of distances (T5:
    Raffel et al. 2020, section 2.1). Half of a direction's buckets have one distance each, the
    others grow logarithmically up to the largest distance. An encoder has buckets for both
    directions, a decoder for the keys before the query.
    """
    distances = torch.arange(1 - length, length, device=table.device)
    count, both_directions = spec.relative_buckets, stack == "encoder"
    return table[_buckets(distances, count, spec.relative_max_distance, both_directions)].T


def _buckets(distances: Tensor, count: int, max_distance: int, both_directions: bool) -> Tensor:
    first = torch.zeros_like(distances)
    if both_directions:
        count //= 2
        first[distances > 0] = count
        distances = distances.abs()
    else:
        distances = (-distances).clamp(min=0)
    exact = count // 2
    # In float32, whatever the model's type: a distance at a bucket's border must be in the same
    # bucket as in training.
    ratio = torch.log(distances.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    growing = exact + (ratio * (count - exact)).long()
    return first + torch.where(distances < exact, distances, growing.clamp(max=count - 1))
