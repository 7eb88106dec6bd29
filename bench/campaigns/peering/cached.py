"""molspec's training twin with a cache of keys and values, as one would write it in PyTorch.

The plain PyTorch peer runs it; ONNX Runtime runs its export. Keys and values of the memory are
computed once a query and shared by its hypotheses.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molspec.model.transformer import Transformer


class Encoder(nn.Module):
    """source_ids [query, source] -> memory [layer, 2, query, head, source, head_dim]."""

    def __init__(self, twin: Transformer) -> None:
        super().__init__()
        self.twin = twin

    def forward(self, source_ids: Tensor) -> Tensor:
        """Encode, and project the memory for every decoder layer."""
        memory = self.twin.encode(source_ids, source_ids == self.twin.pad_id)
        layers: list[Tensor] = []
        for layer in _layers(self.twin):
            attention = layer.cross_attention
            layers += [attention.key(memory), attention.value(memory)]
        heads = self.twin.spec.head_count
        projected = torch.stack(layers).unflatten(0, (-1, 2))
        stacked: Tensor = projected.unflatten(-1, (heads, -1))
        return stacked.transpose(3, 4)


class Step(nn.Module):
    """One token of every hypothesis, all at one position.

    token_ids [row], position [1], source_ids [query, source], memory as of `Encoder`, cache
    [layer, 2, row, head, position, head_dim]; a query's rows are adjacent. Returns logits
    [row, vocab] and the cache grown by one position. Post-norm models only.
    """

    def __init__(self, twin: Transformer) -> None:
        super().__init__()
        if twin.spec.norm != "post":
            raise ValueError(f"norm is {twin.spec.norm!r}: expected 'post'")
        self.twin = twin
        table = getattr(twin, "_sinusoids", None)
        self.positions = twin.target_positions if table is None else table

    def forward(
        self, token_ids: Tensor, position: Tensor, source_ids: Tensor, memory: Tensor, cache: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Logits and the grown cache."""
        spec = self.twin.spec
        embedding = getattr(
            self.twin, "source_embedding" if spec.shared_embedding else "target_embedding"
        )
        hidden = embedding[token_ids] + self.positions[position]
        visible = (source_ids != self.twin.pad_id)[:, None, None, :]
        queries = source_ids.shape[0]
        grown = []
        for index, layer in enumerate(_layers(self.twin)):
            attention = layer.self_attention
            new = torch.stack([attention.key(hidden), attention.value(hidden)])
            new = new.unflatten(-1, (spec.head_count, -1)).unsqueeze(3)
            keys_values = torch.cat([cache[index], new], dim=3)
            grown.append(keys_values)
            query = attention.query(hidden).unflatten(-1, (spec.head_count, 1, -1))
            mixed = F.scaled_dot_product_attention(query, keys_values[0], keys_values[1])
            change = attention.output(mixed.flatten(1))
            hidden = layer.self_attention_norm(hidden + change)

            attention = layer.cross_attention
            query = attention.query(hidden).unflatten(-1, (spec.head_count, -1))
            query = query.unflatten(0, (queries, -1)).transpose(1, 2)
            mixed = F.scaled_dot_product_attention(
                query, memory[index, 0], memory[index, 1], attn_mask=visible
            )
            change = attention.output(mixed.transpose(1, 2).flatten(2).flatten(0, 1))
            hidden = layer.cross_attention_norm(hidden + change)
            inner = F.relu(layer.feed_forward.inner(hidden))
            hidden = layer.feed_forward_norm(hidden + layer.feed_forward.outer(inner))
        if self.twin.decoder.norm is not None:
            hidden = self.twin.decoder.norm(hidden)
        tied = embedding if spec.tied_output else None
        return self.twin.output(hidden, tied), torch.stack(grown)


def _layers(twin: Transformer) -> Any:
    """The decoder's layers, untyped: torch does not type the parts of module lists."""
    return twin.decoder.layers
