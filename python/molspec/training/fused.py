"""Kernels of training on a GPU that do several operations at once, in Triton.

A sublayer ends with norm(residual + dropout(change)), and a feed-forward layer has
dropout(relu(inner)). As single operations these move most of the bytes of a training step; here
each is a kernel forward and one backward. Which elements are dropped is not stored: both draw it
from a seed and the element's place.

Triton comes with torch for CUDA; `molspec.training.fusing` decides whether a model takes these.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

#: Elements of a program at a time.
_BLOCK = 2048
#: Programs of a norm's backward pass: each has its own sums over rows, for the weights' gradients.
_PROGRAMS = 512
#: Random numbers of an element are less.
_DRAWS = 1 << 31


@triton.jit
def _is_kept(seed, place, threshold):
    """Whether an element stays: its place and the seed, mixed by MurmurHash3's finaliser."""
    bits = place.to(tl.uint32) * 0x9E3779B1 ^ seed.to(tl.uint32)
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35
    return ((bits ^ (bits >> 16)) >> 1) >= threshold.to(tl.uint32)


@triton.jit
def _normal(residual, change, place, there, eps, seed, threshold, scale, width: tl.constexpr):
    """Return residual + dropout(change) normed, its deviation, and what is kept."""
    kept = _is_kept(seed, place, threshold)
    changed = tl.load(change + place, there, 0.0).to(tl.float32) * scale
    summed = tl.where(kept, changed, 0.0) + tl.load(residual + place, there, 0.0)
    centred = summed - (tl.sum(summed, 1) / width)[:, None]
    deviation = tl.sqrt(tl.sum(centred * centred, 1) / width + eps)[:, None]
    return centred / deviation, deviation, kept


@triton.jit(do_not_specialize=["rows", "seed", "threshold"])
def _norm_forward(
    residual, change, weight, bias, out, rounded, rows, eps, seed, threshold, scale,
    width: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    column = tl.arange(0, width)
    place, there = row[:, None] * width + column[None, :], (row < rows)[:, None]
    normal, _, _ = _normal(residual, change, place, there, eps, seed, threshold, scale, width)
    made = normal * tl.load(weight + column)[None, :] + tl.load(bias + column)[None, :]
    tl.store(out + place, made, there)
    tl.store(rounded + place, made.to(tl.bfloat16), there)


@triton.jit(do_not_specialize=["rows", "seed", "threshold"])
def _norm_backward(
    grad, rounded_grad, residual, change, weight, to_residual, to_change, to_weight, to_bias, rows,
    eps, seed, threshold, scale, width: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, width)
    weights = tl.load(weight + column)[None, :]
    weight_sum, bias_sum = tl.zeros((width,), tl.float32), tl.zeros((width,), tl.float32)
    begin = tl.program_id(0) * tile
    while begin < rows:  # not `range`, which the interpreter refuses beside numpy 2.4
        row = begin.to(tl.int64) + tl.arange(0, tile)
        place, there = row[:, None] * width + column[None, :], (row < rows)[:, None]
        normal, deviation, kept = _normal(
            residual, change, place, there, eps, seed, threshold, scale, width
        )
        given = tl.load(grad + place, there, 0.0)
        given += tl.load(rounded_grad + place, there, 0.0).to(tl.float32)
        weight_sum += tl.sum(given * normal, 0)
        bias_sum += tl.sum(given, 0)
        given *= weights
        along, mean = tl.sum(given * normal, 1) / width, tl.sum(given, 1) / width
        made = (given - normal * along[:, None] - mean[:, None]) / deviation
        tl.store(to_residual + place, made, there)
        tl.store(to_change + place, tl.where(kept, made * scale, 0.0).to(tl.bfloat16), there)
        begin += tl.num_programs(0) * tile
    own = tl.program_id(0) * width + column
    tl.store(to_weight + own, weight_sum)
    tl.store(to_bias + own, bias_sum)


@triton.jit(do_not_specialize=["seed", "threshold"])
def _relu(value, of, out, count, seed, threshold, scale, block: tl.constexpr):
    """Write dropout(value) where `of` is above zero."""
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    stays = tl.load(of + place, place < count, 0.0).to(tl.float32) > 0.0
    stays &= _is_kept(seed, place, threshold)
    scaled = tl.load(value + place, place < count, 0.0).to(tl.float32) * scale
    tl.store(out + place, tl.where(stays, scaled, 0.0).to(tl.bfloat16), place < count)


def _chance(dropout: float) -> tuple[int, int, float]:
    """A seed of torch's generator, the first draw that is kept, and the scale of what is."""
    seed = int(torch.randint(0, _DRAWS, (), device="cpu")) if dropout else 0
    return seed, int(dropout * _DRAWS), 1.0 / (1.0 - dropout)


class _NormOfSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, Tensor]:
        residual, change, weight, bias, eps, dropout = given
        residual, change, width = residual.contiguous(), change.contiguous(), len(weight)
        rows, tile = residual.numel() // width, _BLOCK // width
        out, rounded = torch.empty_like(residual), torch.empty_like(change)
        ctx.numbers = rows, eps, *_chance(dropout), width, tile
        made = residual, change, weight, bias, out, rounded
        _norm_forward[(triton.cdiv(rows, tile),)](*made, *ctx.numbers)
        ctx.save_for_backward(residual, change, weight)
        return out, rounded

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        given = [each.contiguous() for each in grads] + [*ctx.saved_tensors]
        rows, *_, width, tile = ctx.numbers
        programs = min(_PROGRAMS, triton.cdiv(rows, tile))
        made = torch.empty_like(given[2]), torch.empty_like(given[3])
        sums = given[2].new_empty(2, programs, width)
        _norm_backward[(programs,)](*given, *made, *sums, *ctx.numbers)
        return *made, *sums.sum(1), None, None


class _DroppedRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        inner, chance = given[0].contiguous(), _chance(given[1])
        ctx.scale, ctx.grid = chance[2], (triton.cdiv(inner.numel(), _BLOCK),)
        out = torch.empty_like(inner)
        _relu[ctx.grid](inner, inner, out, inner.numel(), *chance, _BLOCK)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (out,) = ctx.saved_tensors  # zero where an element was dropped
        made = torch.empty_like(out)
        _relu[ctx.grid](grads[0].contiguous(), out, made, out.numel(), 0, 0, ctx.scale, _BLOCK)
        return made, None


def norm_of_sum(
    residual: Tensor, change: Tensor, norm: nn.LayerNorm, dropout: float
) -> tuple[Tensor, Tensor]:
    """norm(residual + dropout(change)) in float32, and rounded to bfloat16.

    residual float32, change bfloat16 [..., width]; width is a power of two, at most 1024.
    """
    return _NormOfSum.apply(residual, change, norm.weight, norm.bias, norm.eps, dropout)


def dropped_relu(inner: Tensor, dropout: float) -> Tensor:
    """dropout(relu(inner)) of bfloat16 [...]."""
    return _DroppedRelu.apply(inner, dropout)
