"""Unpacks a packed model (`engine.packing`) to plain matrices, and computes its layers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from molspec.engine.packing import (
    HEAD_MULTIPLE,
    PANEL_COLUMNS,
    WEIGHT_TYPES,
    inner_multiple,
    inner_step,
    relative_stride,
    round_up,
)

_ACTIVATIONS: dict[int, Callable[[Tensor], Tensor]] = {
    1: F.relu,
    2: F.gelu,
    3: F.silu,
    4: partial(F.gelu, approximate="tanh"),
}

Linear = tuple[Tensor, Tensor]
Norm = tuple[Tensor, Tensor]


@dataclass
class Attention:
    """Projections of one attention; in self-attention, `query` includes key and value."""

    query: Linear
    key_value: Linear | None
    output: Linear
    norm: Norm


@dataclass
class Layer:
    """One layer; layers of the encoder have no cross-attention; biases are [head, distance]."""

    self_attention: Attention
    cross_attention: Attention
    gate: Linear | None
    inner: Linear
    outer: Linear
    norm: Norm
    relative_bias: Tensor | None = None


@dataclass
class Stack:
    """Encoder or decoder; may have one row for each position."""

    embedding: Tensor
    positions: Tensor | None = None
    embedding_norm: Norm | None = None
    layers: list[Layer] = field(default_factory=list)
    norm: Norm | None = None


@dataclass
class Unpacked:
    """Sizes and weights; csrc/ops/model.cpp defines their order."""

    dtype: torch.dtype
    matrix_dtype: torch.dtype
    d_model: int
    head_count: int
    head_dim: int
    feed_forward_size: int
    max_positions: int
    pre_norm: bool
    final_norm: bool
    embedding_norm: bool
    norm_kind: int
    kind_of_positions: int
    rotary_columns: int
    gated: bool
    activation: int
    norm_eps: float
    attention_scale: float
    rotary: Tensor = field(init=False)
    encoder: Stack = field(init=False)
    decoder: Stack = field(init=False)
    output: Linear = field(init=False)

    @property
    def width(self) -> int:
        """Columns of all heads, each padded."""
        return self.head_count * round_up(self.head_dim, HEAD_MULTIPLE)

    @staticmethod
    def read(weights: Tensor, table: Tensor, dtype: torch.dtype) -> Unpacked:
        """Read sizes and weights back, in `dtype`."""
        entries = iter(table.tolist())
        _version, weight_type, d_model, heads, head_dim, feed_forward = (
            next(entries) for _ in range(6)
        )
        encoder_layers, decoder_layers, source_vocab, target_vocab, max_positions = (
            next(entries) for _ in range(5)
        )
        pre_norm, final_norm, embedding_norm = (bool(next(entries)) for _ in range(3))
        norm_kind = next(entries)
        kind_of_positions, rotary_columns = next(entries), next(entries)
        gated = bool(next(entries))
        activation = next(entries)
        norm_eps, scale = (_real(next(entries)) for _ in range(2))
        model = Unpacked(
            dtype,
            WEIGHT_TYPES[weight_type],
            d_model,
            heads,
            head_dim,
            feed_forward,
            max_positions,
            pre_norm,
            final_norm,
            embedding_norm,
            norm_kind,
            kind_of_positions,
            rotary_columns,
            gated,
            activation,
            norm_eps,
            scale,
        )
        reader = _Reader(weights, entries, model)
        model.rotary = reader.rotary()
        model.encoder = reader.stack(source_vocab, encoder_layers, cross=False)
        model.decoder = reader.stack(target_vocab, decoder_layers, cross=True)
        model.output = reader.linear(d_model, target_vocab)
        return model

    def embed(self, stack: Stack, ids: Tensor, positions: Tensor) -> Tensor:
        """Rows [position, d_model] that enter the first layer."""
        hidden = stack.embedding[ids]
        if stack.positions is not None:
            hidden = hidden + stack.positions[positions]
        return hidden if stack.embedding_norm is None else self.norm(hidden, stack.embedding_norm)

    def norm(self, hidden: Tensor, norm: Norm) -> Tensor:
        """A norm; of kind 2, it adds eps to the unbiased standard deviation."""
        if self.norm_kind == 2:
            centred = hidden - hidden.mean(dim=-1, keepdim=True)
            return centred / (hidden.std(dim=-1, keepdim=True) + self.norm_eps) * norm[0] + norm[1]
        if self.norm_kind == 1:
            mean_square = hidden.square().mean(dim=-1, keepdim=True)
            return hidden / (mean_square + self.norm_eps).sqrt() * norm[0]
        return F.layer_norm(hidden, (self.d_model,), *norm, eps=self.norm_eps)

    def input(self, hidden: Tensor, norm: Norm) -> Tensor:
        """The input of a sublayer: pre-norm models normalise it."""
        return self.norm(hidden, norm) if self.pre_norm else hidden

    def end(self, hidden: Tensor, norm: Norm) -> Tensor:
        """The output of a sublayer: post-norm models normalise it."""
        return hidden if self.pre_norm else self.norm(hidden, norm)

    def final(self, hidden: Tensor, stack: Stack) -> Tensor:
        """Apply the norm after the last layer, if there is one."""
        return hidden if stack.norm is None else self.norm(hidden, stack.norm)

    def linear(self, hidden: Tensor, linear: Linear) -> Tensor:
        """Matrix product and bias; inputs are rounded as the weights are, int8 row by row."""
        if self.matrix_dtype == torch.int8:
            scale = hidden.abs().amax(dim=-1, keepdim=True) / 127
            hidden = (hidden / scale.where(scale != 0, 1)).round() * scale
        elif self.matrix_dtype != torch.float32:
            hidden = hidden.to(self.matrix_dtype).to(self.dtype)
        return F.linear(hidden, *linear)

    def keys_values(
        self, hidden: Tensor, attention: Attention, positions: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Key and value rows [position, width] of the attention's input.

        Self-attention gives the positions.
        """
        linear = attention.key_value or attention.query
        projected = self.linear(hidden, linear)[:, -2 * self.width :]
        return self.rotated(projected[:, : self.width], positions), projected[:, self.width :]

    def rotated(self, rows: Tensor, positions: Tensor | None) -> Tensor:
        """Rows [position, width] of queries or keys, turned by rotary positions if there are any.

        A pair of columns is a complex number.
        """
        if positions is None or not self.rotary_columns:
            return rows
        half = self.rotary_columns // 2
        turns = torch.complex(*self.rotary[positions].split(half, dim=1))[:, None]
        heads = rows.unflatten(1, (self.head_count, -1)).clone()
        left, right = heads[..., :half], heads[..., half : 2 * half]
        turned = torch.complex(left, right) * turns
        heads[..., : 2 * half] = torch.cat((turned.real, turned.imag), dim=-1)
        flat: Tensor = heads.flatten(1)
        return flat

    def relative_bias(self, layer: Layer, queries: Tensor, keys: Tensor) -> Tensor | None:
        """Biases [head, query, key] of positions, or None if the model has no biases."""
        if layer.relative_bias is None:
            return None
        return layer.relative_bias[:, keys - queries[:, None] + self.max_positions - 1]

    def attend(
        self,
        hidden: Tensor,
        cached: Tensor | tuple[Tensor, Tensor],
        attention: Attention,
        bias: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """One attention sublayer over cached keys and values, or over the rows themselves.

        Self-attention gives the rows' positions.
        """
        entry = self.input(hidden, attention.norm)
        keys, values = (
            self.keys_values(entry, attention, positions) if isinstance(cached, Tensor) else cached
        )
        query = self.rotated(self.linear(entry, attention.query)[:, : self.width], positions)
        heads = [part.unflatten(1, (self.head_count, -1)) for part in (query, keys, values)]
        scores = torch.einsum("qhc,khc->hqk", heads[0], heads[1]) * self.attention_scale
        if bias is not None:
            scores = scores + bias
        context = torch.einsum("hqk,khc->qhc", scores.softmax(dim=-1), heads[2])
        return self.end(hidden + self.linear(context.flatten(1), attention.output), attention.norm)

    def feed_forward(self, hidden: Tensor, layer: Layer) -> Tensor:
        """The feed-forward sublayer."""
        entry = self.input(hidden, layer.norm)
        inner = self.linear(entry, layer.inner)
        activation = _ACTIVATIONS[self.activation]
        if layer.gate is None:
            inner = activation(inner)
        else:
            inner = activation(self.linear(entry, layer.gate)) * inner
        outer = self.linear(inner, layer.outer)
        return self.end(hidden + outer, layer.norm)


class _Reader:
    """Reads the weights at the offsets of the table, in order."""

    def __init__(self, weights: Tensor, offsets: Iterator[int], model: Unpacked) -> None:
        self._weights = weights
        self._offsets = offsets
        self._model = model

    def _take(self, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
        begin = next(self._offsets)
        data = self._weights[begin : begin + count * dtype.itemsize]
        return data.view(dtype).to(self._model.dtype)

    def linear(self, in_size: int, out_size: int) -> Linear:
        dtype = self._model.matrix_dtype
        inner, columns = round_up(in_size, inner_multiple(dtype)), round_up(out_size, PANEL_COLUMNS)
        step = inner_step(dtype)
        data = self._take(inner * columns, dtype)
        panels = data.reshape(-1, inner // step, PANEL_COLUMNS, step).transpose(2, 3)
        weight = panels.reshape(-1, inner, PANEL_COLUMNS).transpose(1, 2).reshape(columns, inner)
        bias = self._take(columns)
        if dtype == torch.int8:
            weight = weight * self._take(columns)[:, None]
            next(self._offsets)  # 128 times the sums of columns: only CPU kernels use them
        return weight[:out_size, :in_size], bias[:out_size]

    def _norm(self) -> Norm:
        return self._rows(1)[0], self._rows(1)[0]

    def _rows(self, count: int) -> Tensor:
        stride = round_up(self._model.d_model, PANEL_COLUMNS)
        return self._take(count * stride).reshape(count, stride)[:, : self._model.d_model]

    def _attention(self, cross: bool) -> Attention:
        width, d_model = self._model.width, self._model.d_model
        query = self.linear(d_model, width if cross else 3 * width)
        key_value = self.linear(d_model, 2 * width) if cross else None
        return Attention(query, key_value, self.linear(width, d_model), self._norm())

    def _layer(self, cross: bool) -> Layer:
        sizes = self._model.d_model, self._model.feed_forward_size
        self_attention = self._attention(cross=False)
        return Layer(
            self_attention,
            self._attention(cross=True) if cross else self_attention,
            self.linear(*sizes) if self._model.gated else None,
            self.linear(*sizes),
            self.linear(*reversed(sizes)),
            self._norm(),
        )

    def _biases(self) -> Tensor:
        stride = relative_stride(self._model.max_positions)
        return self._take(self._model.head_count * stride).reshape(-1, stride)

    def rotary(self) -> Tensor:
        """Cosines and sines [position, columns]."""
        columns = self._model.rotary_columns
        count = self._model.max_positions * columns
        return (self._take(count) if count else torch.empty(0)).reshape(-1, max(columns, 1))

    def stack(self, vocab_size: int, layers: int, cross: bool) -> Stack:
        model = self._model
        stack = Stack(self._rows(vocab_size))
        added, shared, by_layer = (model.kind_of_positions == kind for kind in range(3))
        stack.positions = self._rows(model.max_positions) if added else None
        biases = self._biases() if shared else None
        stack.embedding_norm = self._norm() if model.embedding_norm else None
        for _ in range(layers):
            biases = self._biases() if by_layer else biases
            stack.layers.append(replace(self._layer(cross), relative_bias=biases))
        stack.norm = self._norm() if model.final_norm else None
        return stack


def _real(bits: int) -> float:
    """The double with the bits of an integer of the table."""
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value
