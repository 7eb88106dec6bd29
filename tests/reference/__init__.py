"""Plain PyTorch twins of the native operators compute the same results step by step.

Every function has the name and the arguments of its operator in `ops`. The twins are the executable
specification that kernels are tested against, written to be read, not to be fast. The engine's
twins compute in the dtype of the caches they get, so float64 caches give a float64 model.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from molspec.engine.packing import BLOCK_POSITIONS
from tests.reference.unpacking import Unpacked


def left_pad(token_ids: Tensor, lengths: Tensor, pad_id: int) -> tuple[Tensor, Tensor]:
    """Align ragged sequences at their ends; see `ops.left_pad`."""
    rows = token_ids.split(lengths.tolist())
    width = max(map(len, rows), default=0)
    padded = [torch.cat([row.new_full((width - len(row),), pad_id), row]) for row in rows]
    ids = torch.stack(padded) if padded else token_ids.new_empty((0, 0))
    return ids, width - lengths


def expand_drafts(
    token_ids: Tensor, position_offsets: Tensor, query_indices: Tensor, draft_ids: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Put every draft of a query after every hypothesis of it; see `ops.expand_drafts`."""
    drafts = draft_ids.shape[1]
    sequences = token_ids.repeat_interleave(drafts, dim=0)
    appended = draft_ids[query_indices].flatten(0, 1)
    return (
        torch.cat([sequences, appended], dim=1),
        position_offsets.repeat_interleave(drafts),
        query_indices.repeat_interleave(drafts),
    )


def acceptance_length(draft_ids: Tensor, draft_lengths: Tensor, predicted_ids: Tensor) -> Tensor:
    """Longest prefix of each draft that equals the prediction; see `ops.acceptance_length`."""
    columns = torch.arange(draft_ids.shape[1])
    agree = (draft_ids == predicted_ids) & (columns < draft_lengths[:, None])
    return agree.long().cumprod(dim=1).sum(dim=1)


def rank_tokens(nodes: Tensor, log_probs: Tensor, best: Sequence[Tensor]) -> None:
    """Find the likeliest tokens after every node; see csrc/cuda/rounds/beam_rows.h."""
    best_ids, best_log_probs = best
    for index, (memory, row) in enumerate(zip(nodes[:, 3].tolist(), log_probs, strict=True)):
        if memory < 0:
            continue
        best_ids[index], best_log_probs[index] = -1, -torch.inf
        values, ids = row.sort(descending=True, stable=True)
        is_number = ~values.isnan()
        ids = ids[is_number][: best_ids.shape[1]]
        if len(ids) and not row[0].isnan() and row[ids[0]].isfinite():
            best_ids[index, : len(ids)], best_log_probs[index, : len(ids)] = ids.int(), row[ids]


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
            bias = model.relative_bias(layer, positions, positions)
            hidden = model.attend(hidden, hidden, layer.self_attention, bias, positions)
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
    hidden_states: Tensor | None = None,
) -> None:
    """Evaluate the decoder node by node; see `ops.decoder_step`."""
    model = Unpacked.read(weights, table, kv_cache.dtype)
    for row, (token_id, position, begin, memory) in enumerate(nodes.tolist()):
        path = path_slots[begin : begin + position + 1].long()
        memory_slots = _memory_slots(memories[memory])
        query_position = torch.tensor([position])
        hidden = model.embed(model.decoder, torch.tensor([token_id]), query_position)
        for index, layer in enumerate(model.decoder.layers):
            attention = layer.self_attention
            bias = model.relative_bias(layer, query_position, torch.arange(position + 1))
            entry = model.input(hidden, attention.norm)
            keys, values = model.keys_values(entry, attention, query_position)
            _store(kv_cache[:, index], path[-1:], keys, values)
            cached = _load(kv_cache[:, index], path, model)
            hidden = model.attend(hidden, cached, attention, bias, query_position)
            cached = _load(memory_cache[:, index], memory_slots, model)
            hidden = model.attend(hidden, cached, layer.cross_attention)
            hidden = model.feed_forward(hidden, layer)
        hidden = model.final(hidden, model.decoder)
        if hidden_states is not None and len(hidden_states):
            hidden_states[path[-1]] = hidden[0, : hidden_states.shape[1]]
        logits = model.linear(hidden, model.output)
        log_probs[row] = logits[0, : log_probs.shape[1]].log_softmax(dim=-1)


def _memory_slots(memory: Tensor) -> Tensor:
    positions = torch.arange(int(memory[0]))
    blocks = memory[1:].long()[positions // BLOCK_POSITIONS]
    return blocks * BLOCK_POSITIONS + positions % BLOCK_POSITIONS


def _parts(cache: Tensor) -> tuple[Tensor, Tensor]:
    """Keys [block, column, 16] and values [block, 16, column] of a layer's cache."""
    keys, values = cache.chunk(2, dim=1)
    return (keys.unflatten(1, (-1, BLOCK_POSITIONS)), values.unflatten(1, (BLOCK_POSITIONS, -1)))


def _store(cache: Tensor, slots: Tensor, keys: Tensor, values: Tensor) -> None:
    cached_keys, cached_values = _parts(cache)
    block, lane = slots // BLOCK_POSITIONS, slots % BLOCK_POSITIONS
    cached_keys[block, :, lane] = keys
    cached_values[block, lane] = values


def _load(cache: Tensor, slots: Tensor, model: Unpacked) -> tuple[Tensor, Tensor]:
    cached_keys, cached_values = _parts(cache)
    block, lane = slots // BLOCK_POSITIONS, slots % BLOCK_POSITIONS
    return cached_keys[block, :, lane], cached_values[block, lane]
