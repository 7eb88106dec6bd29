"""Plain PyTorch twins of the native operators compute the same results step by step.

A twin of a dense operator has its name and its arguments in `ops`. The twin of `encode` and
`decoder_step` is the training twin, a `Transformer`, with the matrix products of the engine's
dtype. The twins are the executable specification that kernels are tested against, written to be
read, not to be fast.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.overrides import TorchFunctionMode

from molspec.model.spec import ModelSpec
from molspec.model.transformer import Transformer


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


def pack_int8(rows: Tensor, first: int, *packed: Tensor) -> None:
    """Round rows of a matrix to 255 steps each and store them; see `ops.pack_int8`."""
    panels, scales, offsets, by_rows = packed
    scale = rows.abs().amax(dim=1) / 127
    whole = (rows / scale.where(scale != 0, 1)[:, None]).round().to(torch.int8)
    scales[first : first + len(rows)] = scale
    offsets[first : first + len(rows)] = 128 * whole.sum(dim=1, dtype=torch.int32)
    whole = F.pad(whole, (0, -rows.shape[1] % 4))
    for column, row in enumerate(whole, first):
        panel, place = divmod(column, 64)
        panels.view(torch.int8).view(-1, len(row) // 4, 64, 4)[panel, :, place] = row.view(-1, 4)
        if len(by_rows):
            again = 16 * (place // 4 % 4) + 4 * (place // 16) + place % 4
            by_rows.view(torch.int8).view(len(row), -1)[:, 64 * panel + again] = row


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


class RoundedProducts(TorchFunctionMode):
    """Rounds both sides of every linear layer as an engine of a dtype does; int8 row by row."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is F.linear:
            hidden, weight, *bias = args
            args = (self._rounded(hidden), self._rounded(weight), *bias)
        return function(*args, **(kwargs or {}))

    def _rounded(self, rows: Tensor) -> Tensor:
        if self._dtype == torch.int8:
            scale = rows.abs().amax(dim=-1, keepdim=True) / 127
            return (rows / scale.where(scale != 0, 1)).round() * scale
        return rows if self._dtype == torch.float32 else rows.to(self._dtype).to(rows.dtype)


@torch.no_grad()
def steps(
    spec: ModelSpec,
    weights: Mapping[str, Tensor],
    dtype: torch.dtype,
    sources: Sequence[Tensor],
    paths: Sequence[tuple[int, Sequence[int]]],
) -> tuple[Tensor, Tensor]:
    """Log-probs [node, vocab] and hidden states [node, d_model], by encoding and decoding anew.

    paths: of every node, its source and the token ids from BOS to the node.
    In float32 the twin computes in float64, so that it has the true values.
    """
    model = Transformer(spec, dropout=0.0).eval()
    model.load_state_dict(dict(weights))
    if dtype == torch.float32:
        model.double()
    hidden = torch.empty(len(paths), spec.d_model, dtype=model.source_embedding.dtype)
    with RoundedProducts(dtype):
        for source, ids in enumerate(sources):
            memory = model.encode(ids[None].long(), torch.zeros(1, len(ids)) > 0)
            nodes = [node for node, (own, _) in enumerate(paths) if own == source]
            targets = [torch.tensor(paths[node][1]) for node in nodes]
            if not targets:
                continue
            # No position sees the padding behind it.
            states = model.hidden_states(
                pad_sequence(targets, batch_first=True),
                memory.expand(len(nodes), -1, -1),
                torch.zeros(len(nodes), len(ids), dtype=torch.bool),
            )
            ends = [len(target) - 1 for target in targets]
            hidden[nodes] = states[range(len(nodes)), ends]
        return model.logits(hidden).log_softmax(dim=-1).float(), hidden.float()
