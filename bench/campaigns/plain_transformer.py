"""A checkpoint in plain PyTorch, and the greedy loops that its owner would write around it."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molspec.checkpoints import Checkpoint
from molspec.model.positions import sinusoidal_positions

_TORCH_NAMES = (
    ("self_attention_norm", "norm1"),
    ("cross_attention_norm", "norm2"),
    ("self_attention", "self_attn"),
    ("cross_attention", "multihead_attn"),
    ("attn.output", "attn.out_proj"),
    ("feed_forward.inner", "linear1"),
    ("feed_forward.outer", "linear2"),
)


class PlainTransformer(nn.Module):
    """The model of Andronov et al. on torch.nn.Transformer, with their two methods."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        spec = checkpoint.spec
        self.embedding = nn.Embedding(spec.source_vocab_size, spec.d_model)
        self.transformer = nn.Transformer(
            spec.d_model,
            spec.head_count,
            spec.encoder_layers,
            spec.decoder_layers,
            spec.feed_forward,
            activation=spec.activation,
            batch_first=True,
        )
        self.classifier = nn.Linear(spec.d_model, spec.target_vocab_size)
        table = sinusoidal_positions(spec.max_positions, spec.d_model)
        self.positions: Tensor
        self.register_buffer("positions", table, persistent=False)
        self.load_state_dict(_state(checkpoint))
        self.eval()

    def encode_src(self, src: Tensor, src_pad_mask: Tensor) -> Tensor:
        """Memory [batch, length, d]; the mask is True at padding."""
        hidden = self.embedding(src) + self.positions[: src.shape[1]]
        memory: Tensor = self.transformer.encoder(hidden, src_key_padding_mask=src_pad_mask)
        return memory

    def decode_tgt(self, tgt: Tensor, memory: Tensor, memory_pad_mask: Tensor) -> Tensor:
        """Logits [batch, length, vocab] after every token."""
        length = tgt.shape[1]
        hidden = self.embedding(tgt) + self.positions[:length]
        future = torch.ones(length, length, dtype=torch.bool, device=tgt.device).triu(1)
        hidden = self.transformer.decoder(
            hidden, memory, tgt_mask=future, memory_key_padding_mask=memory_pad_mask
        )
        logits: Tensor = self.classifier(hidden)
        return logits


def _state(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The checkpoint's weights under PlainTransformer's names; query, key and value are stacked."""
    spec, weights = checkpoint.spec, checkpoint.weights
    if not (spec.norm == "post" and spec.final_norm and spec.shared_embedding):
        raise ValueError("expected a model of the paper's conventions")
    state = {"embedding.weight": weights["source_embedding"].float()}
    for name, weight in weights.items():
        if ".query." in name:
            parts = [weights[name.replace("query", part)] for part in ("query", "key", "value")]
            weight = torch.cat(parts)
            name = name.replace(".query.", ".in_proj_")
        elif ".key." in name or ".value." in name or "embedding" in name:
            continue
        name = name.replace("output.", "classifier.") if name.startswith("output.") else name
        if name.startswith(("encoder.", "decoder.")):
            name = f"transformer.{name}"
        last = "norm2" if "encoder" in name else "norm3"
        for own_name, torch_name in (*_TORCH_NAMES, ("feed_forward_norm", last)):
            name = name.replace(own_name, torch_name)
        state[name] = weight.float()
    return state


#: Log-probabilities [row, vocab] after the last of target_ids [row, length].
Step = Callable[[Tensor], Tensor]


class WithoutCache:
    """A step that decodes the whole prefix."""

    def __init__(
        self, model: PlainTransformer, source_ids: Tensor, pad_id: int, beams: int
    ) -> None:
        self._model = model
        mask = source_ids == pad_id
        self._memory = model.encode_src(source_ids, mask).repeat_interleave(beams, dim=0)
        self._mask = mask.repeat_interleave(beams, dim=0)

    def __call__(self, target_ids: Tensor) -> Tensor:
        """Log-probabilities [row, vocab] after the last of target_ids [row, length]."""
        logits = self._model.decode_tgt(target_ids, self._memory, self._mask)
        return logits[:, -1].log_softmax(dim=-1)


class WithCache:
    """A step that decodes only the last token; keys and values are cached."""

    def __init__(
        self, model: PlainTransformer, source_ids: Tensor, pad_id: int, beams: int
    ) -> None:
        self._model = model
        padding = source_ids == pad_id
        memory = model.encode_src(source_ids, padding).repeat_interleave(beams, dim=0)
        self._visible = ~padding.repeat_interleave(beams, dim=0)[:, None, None]
        self._layers: list[Any] = list(model.transformer.decoder.layers)  # torch does not type them
        self._heads = self._layers[0].self_attn.num_heads
        self._cross = [self._project(memory, layer.multihead_attn, 1, 3) for layer in self._layers]
        self._cache: list[list[Tensor]] = [[] for _ in self._layers]

    def __call__(self, target_ids: Tensor) -> Tensor:
        """Log-probabilities [row, vocab] after the last of target_ids [row, length]."""
        position = target_ids.shape[1] - 1
        hidden = self._model.embedding(target_ids[:, -1:]) + self._model.positions[position]
        for layer, cross, cache in zip(self._layers, self._cross, self._cache, strict=True):
            query, *new = self._project(hidden, layer.self_attn, 0, 3)
            before = cache or [part[:, :, :0] for part in new]
            cache[:] = [torch.cat(parts, dim=2) for parts in zip(before, new, strict=True)]
            keys, values = cache
            hidden = layer.norm1(hidden + self._attend(layer.self_attn, query, keys, values))
            (query,) = self._project(hidden, layer.multihead_attn, 0, 1)
            keys, values = cross
            mixed = self._attend(layer.multihead_attn, query, keys, values, self._visible)
            hidden = layer.norm2(hidden + mixed)
            hidden = layer.norm3(hidden + layer.linear2(layer.activation(layer.linear1(hidden))))
        logits: Tensor = self._model.classifier(self._model.transformer.decoder.norm(hidden))
        return logits[:, -1].log_softmax(dim=-1)

    def _project(
        self, hidden: Tensor, attention: nn.MultiheadAttention, first: int, last: int
    ) -> list[Tensor]:
        """Parts first to last of query, key and value, each [row, head, column, head_dim]."""
        width = hidden.shape[-1]
        rows = slice(first * width, last * width)
        projected = F.linear(hidden, attention.in_proj_weight[rows], attention.in_proj_bias[rows])
        heads = projected.unflatten(-1, (last - first, self._heads, -1))
        return list(heads.permute(2, 0, 3, 1, 4))

    def _attend(
        self,
        attention: nn.MultiheadAttention,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        visible: Tensor | None = None,
    ) -> Tensor:
        mixed = F.scaled_dot_product_attention(query, key, value, visible)
        result: Tensor = attention.out_proj(mixed.transpose(1, 2).flatten(2))
        return result


def greedy(step: Step, rows: int, bos_id: int, eos_id: int, max_length: int) -> Tensor:
    """Greedy decoding of a batch: ids [row, length] after BOS; ignore those after EOS."""
    target_ids = torch.full((rows, 1), bos_id)
    done = torch.zeros(rows, dtype=torch.bool)
    while target_ids.shape[1] <= max_length and not done.all():
        token_ids = step(target_ids).argmax(dim=-1)
        target_ids = torch.cat([target_ids, token_ids[:, None]], dim=1)
        done |= token_ids == eos_id
    return target_ids[:, 1:]
