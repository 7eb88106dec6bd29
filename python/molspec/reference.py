"""Plain-PyTorch twins of the native operators: what each computes, step by step.

Every function has the name and the arguments of its operator in `ops`. They are the executable
specification that the kernels are tested against, written to be read, not to be fast. The engine's
twins compute in the dtype of the caches they are given, so float64 caches make a float64 model.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from molspec.engine.packing import (
    BLOCK_POSITIONS,
    HEAD_MULTIPLE,
    PANEL_COLUMNS,
    WEIGHT_TYPES,
    inner_multiple,
    inner_step,
    round_up,
)

_ACTIVATIONS: dict[int, Callable[[Tensor], Tensor]] = {1: F.relu, 2: F.gelu, 3: F.silu}


def left_pad(token_ids: Tensor, lengths: Tensor, pad_id: int) -> tuple[Tensor, Tensor]:
    """Align ragged sequences at their ends; see `ops.left_pad`."""
    rows = token_ids.split(lengths.tolist())
    width = max(map(len, rows), default=0)
    padded = [F.pad(row, (width - len(row), 0), value=pad_id) for row in rows]
    ids = torch.stack(padded) if padded else token_ids.new_empty((0, 0))
    return ids, width - lengths


def expand_drafts(
    token_ids: Tensor, position_offsets: Tensor, query_indices: Tensor, draft_ids: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Put every draft of a query behind every hypothesis of it; see `ops.expand_drafts`."""
    drafts = draft_ids.shape[1]
    sequences = token_ids.repeat_interleave(drafts, dim=0)
    behind = draft_ids[query_indices].flatten(0, 1)
    return (
        torch.cat([sequences, behind], dim=1),
        position_offsets.repeat_interleave(drafts),
        query_indices.repeat_interleave(drafts),
    )


def acceptance_length(draft_ids: Tensor, draft_lengths: Tensor, predicted_ids: Tensor) -> Tensor:
    """Longest prefix of each draft that equals the prediction; see `ops.acceptance_length`."""
    columns = torch.arange(draft_ids.shape[1])
    agree = (draft_ids == predicted_ids) & (columns < draft_lengths[:, None])
    return agree.long().cumprod(dim=1).sum(dim=1)


def select_hypotheses(
    scores: Tensor,
    parent_ranks: Tensor,
    token_ids: Tensor,
    candidate_counts: Tensor,
    beam_size: int,
) -> tuple[Tensor, Tensor]:
    """Pick the best candidates of every query; see `ops.select_hypotheses`."""
    indices = token_ids.new_zeros((len(scores), beam_size))
    counts = candidate_counts.clamp(max=beam_size)
    for query, (available, count) in enumerate(zip(candidate_counts, counts, strict=True)):
        rows = [part[query, :available].tolist() for part in (scores, parent_ranks, token_ids)]
        ranked = sorted(range(int(available)), key=lambda i: (-rows[0][i], rows[1][i], rows[2][i]))
        indices[query, :count] = torch.tensor(ranked[:count], dtype=torch.int64)
    return indices, counts


def rank_tokens(nodes: Tensor, log_probs: Tensor, best_ids: Tensor, best_log_probs: Tensor) -> None:
    """Find the likeliest tokens behind every node; see `ops.rank_tokens`."""
    best_ids[: len(nodes)], best_log_probs[: len(nodes)] = -1, -torch.inf
    for i, row in enumerate(log_probs):
        if nodes[i, 3] < 0:
            continue
        values, ids = row.sort(descending=True, stable=True)
        numbers = ~values.isnan()
        ids = ids[numbers][: best_ids.shape[1]]
        if row[0].isnan():
            best_ids[i, 0], best_log_probs[i, 0] = 0, torch.nan
        else:
            best_ids[i, : len(ids)], best_log_probs[i, : len(ids)] = ids.int(), row[ids]


def encode(
    weights: Tensor,
    table: Tensor,
    source_ids: Tensor,
    source_offsets: Tensor,
    memories: Tensor,
    memory_cache: Tensor,
    workspace: Tensor,
) -> None:
    """Store the memory of every source in its blocks; see `ops.encode`. Needs no workspace."""
    model = Unpacked.read(weights, table, memory_cache.dtype)
    for query in range(len(source_offsets) - 1):
        source = source_ids[source_offsets[query] : source_offsets[query + 1]].long()
        positions = torch.arange(len(source))
        hidden = model.embed(model.encoder, source, positions)
        for layer in model.encoder.layers:
            hidden = model.attend(hidden, hidden, layer.self_attention)
            hidden = model.feed_forward(hidden, layer)
        hidden = model.final(hidden, model.encoder)
        slots = _memory_slots(memories[query])
        for index, layer in enumerate(model.decoder.layers):
            keys, values = model.keys_values(hidden, layer.cross_attention)
            _store(memory_cache[:, index], slots, keys, values)


def decoder_step(
    weights: Tensor,
    table: Tensor,
    nodes: Tensor,
    path_slots: Tensor,
    memories: Tensor,
    memory_cache: Tensor,
    kv_cache: Tensor,
    workspace: Tensor,
    log_probs: Tensor,
) -> None:
    """One node after the other through the decoder; see `ops.decoder_step`."""
    model = Unpacked.read(weights, table, kv_cache.dtype)
    for row, (token_id, position, begin, memory) in enumerate(nodes.tolist()):
        path = path_slots[begin : begin + position + 1].long()
        memory_slots = _memory_slots(memories[memory])
        hidden = model.embed(model.decoder, torch.tensor([token_id]), torch.tensor([position]))
        for index, layer in enumerate(model.decoder.layers):
            attention = layer.self_attention
            keys, values = model.keys_values(model.input(hidden, attention.norm), attention)
            _store(kv_cache[:, index], path[-1:], keys, values)
            cached = _load(kv_cache[:, index], path, model)
            hidden = model.attend(hidden, cached, attention)
            cached = _load(memory_cache[:, index], memory_slots, model)
            hidden = model.attend(hidden, cached, layer.cross_attention)
            hidden = model.feed_forward(hidden, layer)
        logits = model.linear(model.final(hidden, model.decoder), model.output)
        log_probs[row] = logits[0, : log_probs.shape[1]].log_softmax(dim=-1)


def _memory_slots(memory: Tensor) -> Tensor:
    positions = torch.arange(int(memory[0]))
    blocks = memory[1:].long()[positions // BLOCK_POSITIONS]
    return blocks * BLOCK_POSITIONS + positions % BLOCK_POSITIONS


def _parts(cache: Tensor) -> tuple[Tensor, Tensor]:
    """Keys [block, column, 16] and values [block, 16, column] of a layer's cache."""
    keys, values = cache.chunk(2, dim=1)
    return (
        keys.unflatten(1, (-1, BLOCK_POSITIONS)),
        values.unflatten(1, (BLOCK_POSITIONS, -1)),
    )


def _store(cache: Tensor, slots: Tensor, keys: Tensor, values: Tensor) -> None:
    cached_keys, cached_values = _parts(cache)
    block, lane = slots // BLOCK_POSITIONS, slots % BLOCK_POSITIONS
    cached_keys[block, :, lane] = keys
    cached_values[block, lane] = values


def _load(cache: Tensor, slots: Tensor, model: Unpacked) -> tuple[Tensor, Tensor]:
    cached_keys, cached_values = _parts(cache)
    block, lane = slots // BLOCK_POSITIONS, slots % BLOCK_POSITIONS
    return cached_keys[block, :, lane], cached_values[block, lane]


Linear = tuple[Tensor, Tensor]
Norm = tuple[Tensor, Tensor]


@dataclass
class Attention:
    """Projections of one attention; `query` holds key and value too in self-attention."""

    query: Linear
    key_value: Linear | None
    output: Linear
    norm: Norm


@dataclass
class Layer:
    """One layer; the encoder's has no cross-attention."""

    self_attention: Attention
    cross_attention: Attention
    inner: Linear
    outer: Linear
    norm: Norm


@dataclass
class Stack:
    """Encoder or decoder."""

    embedding: Tensor
    positions: Tensor
    embedding_norm: Norm | None
    layers: list[Layer] = field(default_factory=list)
    norm: Norm | None = None


@dataclass
class Unpacked:
    """A packed model (`engine.packing`) as plain matrices; csrc/ops/model.cpp has the order."""

    dtype: torch.dtype
    matrix_dtype: torch.dtype
    d_model: int
    head_count: int
    head_dim: int
    feed_forward_size: int
    pre_norm: bool
    final_norm: bool
    embedding_norm: bool
    activation: int
    norm_eps: float
    attention_scale: float
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
        pre_norm, final_norm, embedding_norm, activation = (next(entries) for _ in range(4))
        norm_eps, scale = (_real(next(entries)) for _ in range(2))
        model = Unpacked(
            dtype,
            WEIGHT_TYPES[weight_type],
            d_model,
            heads,
            head_dim,
            feed_forward,
            bool(pre_norm),
            bool(final_norm),
            bool(embedding_norm),
            activation,
            norm_eps,
            scale,
        )
        reader = _Reader(weights, entries, model)
        model.encoder = reader.stack(source_vocab, max_positions, encoder_layers, cross=False)
        model.decoder = reader.stack(target_vocab, max_positions, decoder_layers, cross=True)
        model.output = reader.linear(d_model, target_vocab)
        return model

    def embed(self, stack: Stack, ids: Tensor, positions: Tensor) -> Tensor:
        """Rows [position, d_model] that enter the first layer."""
        hidden = stack.embedding[ids] + stack.positions[positions]
        return hidden if stack.embedding_norm is None else self.norm(hidden, stack.embedding_norm)

    def norm(self, hidden: Tensor, norm: Norm) -> Tensor:
        """LayerNorm."""
        return F.layer_norm(hidden, (self.d_model,), *norm, eps=self.norm_eps)

    def input(self, hidden: Tensor, norm: Norm) -> Tensor:
        """What a sublayer sees: pre-norm models normalise first."""
        return self.norm(hidden, norm) if self.pre_norm else hidden

    def end(self, hidden: Tensor, norm: Norm) -> Tensor:
        """What a sublayer leaves: post-norm models normalise last."""
        return hidden if self.pre_norm else self.norm(hidden, norm)

    def final(self, hidden: Tensor, stack: Stack) -> Tensor:
        """The norm behind the last layer, where there is one."""
        return hidden if stack.norm is None else self.norm(hidden, stack.norm)

    def linear(self, hidden: Tensor, linear: Linear) -> Tensor:
        """Matrix product and bias; inputs are rounded as the weights are, int8 row by row."""
        if self.matrix_dtype == torch.int8:
            scale = hidden.abs().amax(dim=-1, keepdim=True) / 127
            hidden = (hidden / scale.where(scale != 0, 1)).round() * scale
        elif self.matrix_dtype != torch.float32:
            hidden = hidden.to(self.matrix_dtype).to(self.dtype)
        return F.linear(hidden, *linear)

    def keys_values(self, hidden: Tensor, attention: Attention) -> tuple[Tensor, Tensor]:
        """Key and value rows [position, width] of the attention's input."""
        linear = attention.key_value or attention.query
        projected = self.linear(hidden, linear)[:, -2 * self.width :]
        return projected[:, : self.width], projected[:, self.width :]

    def attend(
        self, hidden: Tensor, cached: Tensor | tuple[Tensor, Tensor], attention: Attention
    ) -> Tensor:
        """One attention sublayer over cached keys and values, or over the rows themselves."""
        entry = self.input(hidden, attention.norm)
        keys, values = self.keys_values(entry, attention) if isinstance(cached, Tensor) else cached
        query = self.linear(entry, attention.query)[:, : self.width]
        heads = [part.unflatten(1, (self.head_count, -1)) for part in (query, keys, values)]
        scores = torch.einsum("qhc,khc->hqk", heads[0], heads[1]) * self.attention_scale
        context = torch.einsum("hqk,khc->qhc", scores.softmax(dim=-1), heads[2])
        return self.end(hidden + self.linear(context.flatten(1), attention.output), attention.norm)

    def feed_forward(self, hidden: Tensor, layer: Layer) -> Tensor:
        """The feed-forward sublayer."""
        inner = self.linear(self.input(hidden, layer.norm), layer.inner)
        outer = self.linear(_ACTIVATIONS[self.activation](inner), layer.outer)
        return self.end(hidden + outer, layer.norm)


class _Reader:
    """Walks the table's offsets."""

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
            next(self._offsets)  # 128 times the columns' sums: of use to processors only
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

    def stack(self, vocab_size: int, max_positions: int, layers: int, cross: bool) -> Stack:
        model = self._model
        stack = Stack(self._rows(vocab_size), self._rows(max_positions), None)
        stack.embedding_norm = self._norm() if model.embedding_norm else None
        for _ in range(layers):
            self_attention = self._attention(cross=False)
            stack.layers.append(
                Layer(
                    self_attention,
                    self._attention(cross=True) if cross else self_attention,
                    self.linear(model.d_model, model.feed_forward_size),
                    self.linear(model.feed_forward_size, model.d_model),
                    self._norm(),
                )
            )
        stack.norm = self._norm() if model.final_norm else None
        return stack


def _real(bits: int) -> float:
    """The double that the table's integer carries."""
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value
