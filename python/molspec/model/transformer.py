"""The training twin: the model of a `ModelSpec` as a differentiable PyTorch module."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molspec.model.dropout import drop
from molspec.model.positions import relative_biases, rotated, rotations, sinusoidal_positions
from molspec.model.spec import ModelSpec

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
#: Hidden states [batch, length, d], and as matrix products read them: fused kernels round them.
_Stream = tuple[Tensor, Tensor]


class Transformer(nn.Module):
    """Encoder-decoder transformer whose `state_dict()` is exactly `spec.weight_shapes()`.

    `dropout` is the probability of dropping an element of an embedding, of an attention matrix, of
    a feed-forward layer's inner activation and of every sublayer's output, as in Vaswani et al.
    2017 and torch.nn.Transformer. Ids equal to `pad_id` are padding.

    Raises ValueError if `dropout` is outside [0, 1) or `pad_id` outside a vocabulary.
    """

    def __init__(self, spec: ModelSpec, dropout: float = 0.1, pad_id: int = 0) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout is {dropout}: expected a number in [0, 1)")
        if not 0 <= pad_id < min(spec.source_vocab_size, spec.target_vocab_size):
            raise ValueError(f"pad_id is {pad_id}: expected an id of both vocabularies")
        self.spec = spec
        self.dropout = dropout
        self.pad_id = pad_id
        d = spec.d_model
        self.source_embedding = like = nn.Parameter(torch.empty(spec.source_vocab_size, d))
        if not spec.shared_embedding:
            self.target_embedding = nn.Parameter(torch.empty(spec.target_vocab_size, d))
        if spec.positions == "learned":
            self.source_positions = nn.Parameter(torch.empty(spec.max_positions, d))
            self.target_positions = nn.Parameter(torch.empty(spec.max_positions, d))
        elif spec.positions == "sinusoidal":
            table = sinusoidal_positions(spec.max_positions, d, like.dtype).to(like.device)
            self.register_buffer("_sinusoids", table, persistent=False)
        if spec.rotary_columns is not None:
            turns = rotations(spec.max_positions, spec.rotary_columns)
            self.register_buffer("rotary", turns.to(like.device, like.dtype))
        self.encoder = _Stack(spec, dropout, "encoder")
        self.decoder = _Stack(spec, dropout, "decoder")
        self.output = _Output(spec)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights.

        Matrices are Xavier-uniform; embeddings normal, of standard deviation d ** -0.5 where they
        are scaled by sqrt(d) or serve as output and 1 elsewhere; biases zero; norms the identity.
        """
        for name, parameter in self.named_parameters():
            if name.endswith(("_embedding", "_positions")):
                scaled = self.spec.scale_embedding or self.spec.tied_output
                deviation = self.spec.d_model**-0.5 if scaled else 1.0
                nn.init.normal_(parameter, std=deviation)
            elif parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("norm.weight"):
                nn.init.ones_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Logits [batch, target_length, target_vocab] of the token that follows each target id.

        source_ids [batch, source_length] and target_ids [batch, target_length] are int64, padded on
        the right; a source carries BOS and EOS as the spec says, a target begins with BOS.
        """
        last = [self.spec.decoder_layers]
        return self.logits_after(last, source_ids, target_ids, source_ids == self.pad_id)[0]

    def logits_after(
        self, counts: Sequence[int], source_ids: Tensor, target_ids: Tensor, padding: Tensor | None
    ) -> list[Tensor]:
        """The logits of `forward` by decoders of so many of the layers, the fewest first.

        `padding` is True at padding of sources, None if there is none: a GPU is faster without.
        """
        memory, visible = self.encode(source_ids, padding), _visible(padding)
        hidden, turns = self._embed(target_ids, "target"), self._turns(target_ids)
        return [*map(self.logits, self.decoder(hidden, None, turns, counts, memory, visible))]

    def fuse(self, fused: Any) -> None:
        """Let training take the kernels of `molspec.training.fused`."""
        for part in self.modules():
            if isinstance(part, _Layer | _FeedForward):
                part.fused = fused

    def encode(self, source_ids: Tensor, source_padding_mask: Tensor | None) -> Tensor:
        """Memory [batch, source_length, d_model]; the mask is True at padding, None without any."""
        hidden, visible = self._embed(source_ids, "source"), _visible(source_padding_mask)
        last = [self.spec.encoder_layers]
        memory: Tensor = self.encoder(hidden, visible, self._turns(source_ids), last)[0]
        return memory

    def decode(self, target_ids: Tensor, memory: Tensor, memory_padding_mask: Tensor) -> Tensor:
        """Logits [batch, target_length, target_vocab]; the mask is True if memory is padding.

        Causal: padding on the right of a target cannot reach the positions before it.
        """
        return self.logits(self.hidden_states(target_ids, memory, memory_padding_mask))

    def hidden_states(
        self,
        target_ids: Tensor,
        memory: Tensor,
        memory_padding_mask: Tensor,
        visible: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """The last hidden states, before the logits, [batch, target_length, d_model].

        Each position sees itself and those before it, or those where `visible` is True [batch, 1,
        position, seen]. `positions` [batch, target_length] are those in the sequence if they differ
        from the column; relative positions do not support that.
        """
        hidden = self._embed(target_ids, "target", positions)
        turns, last = self._turns(target_ids, positions), [self.spec.decoder_layers]
        memory_visible = _visible(memory_padding_mask)
        states: Tensor = self.decoder(hidden, visible, turns, last, memory, memory_visible)[0]
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., target_vocab] of hidden states [..., d_model]."""
        tied = self._embedding("target") if self.spec.tied_output else None
        logits: Tensor = self.output(hidden, tied)
        return logits

    def _turns(self, ids: Tensor, positions: Tensor | None = None) -> Tensor | None:
        """Return rotations of the positions, which broadcast to [batch, head, length, columns]."""
        if self.spec.rotary_columns is None:
            return None
        table: Tensor = self.get_buffer("rotary")
        return table[: ids.shape[1]] if positions is None else table[positions][:, None]

    def _embedding(self, side: str) -> Tensor:
        name = "source" if self.spec.shared_embedding else side
        table: Tensor = getattr(self, f"{name}_embedding")
        return table

    def _embed(self, ids: Tensor, side: str, positions: Tensor | None = None) -> Tensor:
        length = ids.shape[1]
        if positions is None and length > self.spec.max_positions:
            raise ValueError(
                f"{side}_ids has length {length}: expected at most max_positions "
                f"{self.spec.max_positions}"
            )
        hidden = F.embedding(ids, self._embedding(side))
        if self.spec.scale_embedding:
            hidden = hidden * math.sqrt(self.spec.d_model)
        if self.spec.positions in ("learned", "sinusoidal"):
            learned = self.spec.positions == "learned"
            table: Tensor = getattr(self, f"{side}_positions" if learned else "_sinusoids")
            rows = table[:length] if positions is None else table[positions]
            hidden = hidden + rows.to(hidden.dtype)
        stack = self.encoder if side == "source" else self.decoder
        if self.spec.embedding_norm:
            hidden = stack.embedding_norm(hidden)
        return drop(hidden, self.dropout, self.training)


def _visible(padding_mask: Tensor | None) -> Tensor | None:
    return None if padding_mask is None else ~padding_mask[:, None, None, :]


def _on_cpu(hidden: Tensor) -> bool:
    return hidden.device.type == "cpu"


def _norm(spec: ModelSpec) -> nn.Module:
    if spec.norm_kind == "rms":
        return nn.RMSNorm(spec.d_model, spec.norm_eps)
    kind = nn.LayerNorm if spec.norm_kind == "layer" else _StdNorm
    return kind(spec.d_model, spec.norm_eps, bias=spec.biases)


def first_token(spec: ModelSpec, weights: Mapping[str, Tensor], eos_id: int) -> int:
    """The likeliest token behind the one that the decoder starts with, for some source."""
    twin = Transformer(spec, dropout=0.0).eval()
    twin.load_state_dict(dict(weights))
    some = range(spec.source_vocab_size)[-4:]
    source_ids = torch.tensor([[spec.start_id or 0, *some, eos_id]])
    mask = torch.zeros_like(source_ids, dtype=torch.bool)
    with torch.inference_mode():
        logits = twin.decode(source_ids[:, :1], twin.encode(source_ids, mask), mask)
    return int(logits.argmax())


class _StdNorm(nn.LayerNorm):
    """Divides by the unbiased standard deviation plus eps."""

    def forward(self, hidden: Tensor) -> Tensor:
        centred = hidden - hidden.mean(dim=-1, keepdim=True)
        normal = self.weight * centred / (hidden.std(dim=-1, keepdim=True) + self.eps)
        return normal if self.bias is None else normal + self.bias


class _Stack(nn.Module):
    """The layers of one side, with its embedding norm and final norm."""

    def __init__(self, spec: ModelSpec, dropout: float, side: str) -> None:
        super().__init__()
        self.spec = spec
        self.side = side
        count = spec.encoder_layers if side == "encoder" else spec.decoder_layers
        if spec.positions == "relative" and not spec.relative_per_layer:
            self.relative_bias = nn.Parameter(torch.empty(spec.relative_buckets, spec.head_count))
        if spec.embedding_norm:
            self.embedding_norm = _norm(spec)
        self.layers = nn.ModuleList(
            _Layer(spec, dropout, crosses=side == "decoder") for _ in range(count)
        )
        self.norm = _norm(spec) if spec.final_norm else None

    def forward(
        self,
        hidden: Tensor,
        visible: Tensor | None,
        turns: Tensor | None,
        layer_counts: Sequence[int],
        memory: Tensor | None = None,
        memory_visible: Tensor | None = None,
    ) -> list[Tensor]:
        """The states after each of these numbers of layers, with the final norm.

        Without `visible`, positions see all others; with a memory, those that are not later.
        """
        bias, states = None, []
        if memory is not None and memory.is_cuda and torch.is_autocast_enabled("cuda"):
            memory = memory.to(torch.get_autocast_dtype("cuda"))  # once, and not in every layer
        needs_mask = _on_cpu(hidden) or self.spec.positions == "relative"
        if memory is not None and visible is None and needs_mask:
            length = hidden.shape[1]
            visible = torch.ones(length, length, dtype=torch.bool, device=hidden.device).tril()
        stream = hidden, hidden
        for index, layer in enumerate(self.layers):
            if self.spec.positions == "relative" and (self.spec.relative_per_layer or index == 0):
                owner: Any = layer if self.spec.relative_per_layer else self
                bias = self._biases(owner.relative_bias, hidden.shape[1])
            stream = layer(stream, visible, turns, bias, memory, memory_visible)
            if index + 1 in layer_counts:
                states.append(stream[0] if self.norm is None else self.norm(stream[0]))
        return states

    def _biases(self, table: Tensor, length: int) -> Tensor:
        """Return the biases of self-attention [head, query, key]."""
        by_distance = relative_biases(table, self.spec, self.side, length)
        positions = torch.arange(length, device=by_distance.device)
        return by_distance[:, positions - positions[:, None] + length - 1]


class _Layer(nn.Module):
    """Self-attention, cross-attention if the layer has a memory, feed-forward."""

    fused: Any = None

    def __init__(self, spec: ModelSpec, dropout: float, *, crosses: bool) -> None:
        super().__init__()
        self.pre = spec.norm == "pre"
        self.dropout = dropout
        if spec.positions == "relative" and spec.relative_per_layer:
            self.relative_bias = nn.Parameter(torch.empty(spec.relative_buckets, spec.head_count))
        self.self_attention = _Attention(spec, dropout)
        self.self_attention_norm = _norm(spec)
        self.cross_attention = _Attention(spec, dropout) if crosses else None
        if crosses:
            self.cross_attention_norm = _norm(spec)
        self.feed_forward = _FeedForward(spec, dropout)
        self.feed_forward_norm = _norm(spec)

    def forward(
        self,
        stream: _Stream,
        visible: Tensor | None,
        turns: Tensor | None,
        bias: Tensor | None,
        memory: Tensor | None,
        memory_visible: Tensor | None,
    ) -> _Stream:
        value = self._before(stream, self.self_attention_norm)
        is_causal = visible is None and memory is not None
        change = self.self_attention(value, value, visible, bias, turns, is_causal)
        stream = self._after(stream, change, self.self_attention_norm)
        if self.cross_attention is not None:
            value = self._before(stream, self.cross_attention_norm)
            change = self.cross_attention(value, memory, memory_visible)
            stream = self._after(stream, change, self.cross_attention_norm)
        change = self.feed_forward(self._before(stream, self.feed_forward_norm))
        return self._after(stream, change, self.feed_forward_norm)

    def _before(self, stream: _Stream, norm: nn.Module) -> Tensor:
        normed: Tensor = norm(stream[1]) if self.pre else stream[1]
        return normed

    def _after(self, stream: _Stream, change: Tensor, norm: nn.Module) -> _Stream:
        if self.fused is not None and self.training:
            fused: _Stream = self.fused.norm_of_sum(stream[0], change, norm, self.dropout)
            return fused
        hidden = stream[0] + drop(change, self.dropout, self.training)
        normed: Tensor = hidden if self.pre else norm(hidden)
        return normed, normed


class _Attention(nn.Module):
    """Multi-head attention of `hidden` [batch, length, d] over `context` [batch, seen, d].

    `visible` is boolean and `bias` is added to the scores; both broadcast to
    [batch, head, length, seen]. `turns` rotates queries and keys. Without both and `is_causal`, all
    is visible; a GPU then has kernels that are faster (FlashAttention).
    """

    def __init__(self, spec: ModelSpec, dropout: float) -> None:
        super().__init__()
        self.head_count = spec.head_count
        self.scale = spec.head_dim**-0.5 if spec.scale_attention else 1.0
        self.dropout = dropout
        width = spec.head_count * spec.head_dim
        self.query = nn.Linear(spec.d_model, width, spec.biases)
        self.key = nn.Linear(spec.d_model, width, spec.biases)
        self.value = nn.Linear(spec.d_model, width, spec.biases)
        self.output = nn.Linear(width, spec.d_model, spec.biases)

    def forward(
        self,
        hidden: Tensor,
        context: Tensor,
        visible: Tensor | None,
        bias: Tensor | None = None,
        turns: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        if context is hidden:
            query, key, value = self._heads(hidden, self.query, self.key, self.value)
        else:
            (query,) = self._heads(hidden, self.query)
            key, value = self._heads(context, self.key, self.value)
        if turns is not None:
            query, key = rotated(query, turns), rotated(key, turns)
        mask = visible if bias is None else _hide(bias.to(query.dtype), visible)
        dropout = self.dropout if self.training else 0.0
        if _on_cpu(hidden) and torch.is_grad_enabled():
            mixed = _explicit_attention(query * self.scale, key, value, mask, dropout)
        else:
            mixed = F.scaled_dot_product_attention(
                query, key, value, mask, dropout, is_causal, scale=self.scale
            )
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result

    def _heads(self, rows: Tensor, *layers: nn.Linear) -> tuple[Tensor, ...]:
        """Project rows [batch, length, d] by all layers at once, each to its heads."""
        batch, length, _ = rows.shape
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
        projected = F.linear(rows, weight, bias)
        heads = projected.view(batch, length, len(layers), self.head_count, -1)
        return heads.permute(2, 0, 3, 1, 4).unbind()


def _hide(bias: Tensor, visible: Tensor | None) -> Tensor:
    return bias if visible is None else bias.masked_fill(~visible, -math.inf)


def _explicit_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float
) -> Tensor:
    """`scaled_dot_product_attention` of a scaled query in single operations, to train on a CPU.

    There the backward pass of its fused kernel takes half of a training step, and its MATH backend
    computes bfloat16 in float32. Here only the softmax of half-width types is computed in float32,
    which is also three times as fast.
    """
    wide = torch.float32 if query.dtype.itemsize < 4 else query.dtype
    if mask is not None and mask.dtype == torch.bool:
        mask = _hide(query.new_zeros(mask.shape), mask)
    with torch.autocast("cpu", enabled=False):
        scores = query @ key.transpose(-1, -2)
        scores = scores if mask is None else scores + mask
        weights = torch.softmax(scores, dim=-1, dtype=wide).to(query.dtype)
        return drop(weights, dropout) @ value


class _FeedForward(nn.Module):
    fused: Any = None

    def __init__(self, spec: ModelSpec, dropout: float) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[spec.activation]
        self.dropout = dropout
        if spec.gated:
            self.gate = nn.Linear(spec.d_model, spec.feed_forward, spec.biases)
        self.inner = nn.Linear(spec.d_model, spec.feed_forward, spec.biases)
        self.outer = nn.Linear(spec.feed_forward, spec.d_model, spec.biases)
        self.gated = spec.gated

    def forward(self, hidden: Tensor) -> Tensor:
        inner = self.inner(hidden)
        if self.fused is not None and self.training:
            fused: Tensor = self.outer(self.fused.dropped_relu(inner, self.dropout))
            return fused
        inner = self.activation(self.gate(hidden)) * inner if self.gated else self.activation(inner)
        outer: Tensor = self.outer(drop(inner, self.dropout, self.training))
        return outer


class _Output(nn.Module):
    """The projection to target logits, with its own matrix or with the target embedding."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        if not spec.tied_output:
            self.weight = nn.Parameter(torch.empty(spec.target_vocab_size, spec.d_model))
        self.bias = nn.Parameter(torch.empty(spec.target_vocab_size)) if spec.output_bias else None

    def forward(self, hidden: Tensor, tied: Tensor | None) -> Tensor:
        return F.linear(hidden, self.weight if tied is None else tied, self.bias)
