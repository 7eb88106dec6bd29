"""The same model in plain PyTorch: greedy decoding with and without a cache."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molspec.model.transformer import Transformer


def pad(sources: list[list[int]], pad_id: int, device: str) -> Tensor:
    rows = [torch.tensor(source) for source in sources]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad_id).to(device)


@torch.inference_mode()
def without_cache(
    model: Transformer, source_ids: Tensor, bos: int, eos: int, max_length: int
) -> Tensor:
    """Greedy targets [batch, length]; every step computes all positions anew."""
    padding = source_ids == model.pad_id
    memory = model.encode(source_ids, padding)
    targets = source_ids.new_full((len(source_ids), 1), bos)
    done = torch.zeros_like(targets[:, 0], dtype=torch.bool)
    while targets.shape[1] <= max_length and not done.all():
        logits = model.decode(targets, memory, padding)[:, -1]
        targets = torch.cat([targets, logits.argmax(-1, keepdim=True)], dim=1)
        done |= targets[:, -1] == eos
    return targets


@torch.inference_mode()
def with_cache(
    model: Transformer, source_ids: Tensor, bos: int, eos: int, max_length: int
) -> Tensor:
    """Greedy targets [batch, length]; keys and values of earlier positions are cached."""
    padding = source_ids == model.pad_id
    memory = model.encode(source_ids, padding)
    visible = ~padding[:, None, None, :]
    layers: Any = model.decoder.layers  # torch does not type the parts of module lists
    cross = [_keys_values(layer.cross_attention, memory) for layer in layers]
    cache: list[list[Tensor]] = [[] for _ in layers]
    targets = source_ids.new_full((len(source_ids), 1), bos)
    done = torch.zeros_like(targets[:, 0], dtype=torch.bool)
    # One position at a time: all positions are embedded, and the last one is used.
    while targets.shape[1] <= max_length and not done.all():
        hidden = model._embed(targets, "target")[:, -1:]
        for i, layer in enumerate(layers):
            value = layer._before(hidden, layer.self_attention_norm)
            new = _keys_values(layer.self_attention, value)
            cache[i] = [torch.cat(parts, 2) for parts in zip(cache[i], new)] or new  # noqa: B905
            change = _attend(layer.self_attention, value, cache[i], None)
            hidden = layer._after(hidden, change, layer.self_attention_norm)
            value = layer._before(hidden, layer.cross_attention_norm)
            change = _attend(layer.cross_attention, value, cross[i], visible)
            hidden = layer._after(hidden, change, layer.cross_attention_norm)
            change = layer.feed_forward(layer._before(hidden, layer.feed_forward_norm))
            hidden = layer._after(hidden, change, layer.feed_forward_norm)
        hidden = hidden if model.decoder.norm is None else model.decoder.norm(hidden)
        tied = model._embedding("target") if model.spec.tied_output else None
        targets = torch.cat([targets, model.output(hidden, tied).argmax(-1)], dim=1)
        done |= targets[:, -1] == eos
    return targets


def _keys_values(attention: Any, rows: Tensor) -> list[Tensor]:
    return [_heads(attention, layer(rows)) for layer in (attention.key, attention.value)]


def _heads(attention: Any, rows: Tensor) -> Tensor:
    heads: Tensor = rows.unflatten(-1, (attention.head_count, -1))
    return heads.transpose(1, 2)


def _attend(attention: Any, rows: Tensor, cache: list[Tensor], visible: Tensor | None) -> Tensor:
    query = _heads(attention, attention.query(rows))
    keys, values = cache
    mixed = F.scaled_dot_product_attention(query, keys, values, visible)
    changed: Tensor = attention.output(mixed.transpose(1, 2).flatten(2))
    return changed
