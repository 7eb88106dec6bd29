"""Encoder-decoders with layers of their own, as authors write them: nothing of them has a name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD = 0
WIDTH, HEADS, INNER, VOCAB = 16, 2, 24, 15


class Norm(nn.Module):
    """A norm in single operations: "layer", "rms", or (x - mean) / (std + eps), "std"."""

    def __init__(self, kind: str, eps: float = 1e-6) -> None:
        super().__init__()
        self.kind, self.eps = kind, eps
        self.a = nn.Parameter(1 + 0.3 * torch.randn(WIDTH))
        self.b = nn.Parameter(0.3 * torch.randn(WIDTH))

    def forward(self, hidden: Tensor) -> Tensor:
        if self.kind == "rms":
            square = hidden.pow(2).mean(-1, keepdim=True)
            return self.a * (hidden * torch.rsqrt(square + self.eps))
        centred = hidden - hidden.mean(-1, keepdim=True)
        if self.kind == "std":
            return self.a * centred / (hidden.std(-1, keepdim=True) + self.eps) + self.b
        variance = centred.pow(2).mean(-1, keepdim=True)
        return self.a * (centred / (variance + self.eps).sqrt()) + self.b


def rotated(heads: Tensor, kind: str, columns: int) -> Tensor:
    """Rotary positions of the first columns of heads [batch, head, length, column].

    kind: "halves", "pairs" in complex numbers, or "backwards" from position 3 at other rates.
    """
    half = columns // 2
    rates = (50.0 if kind == "backwards" else 1e4) ** -(torch.arange(half).to(heads.dtype) / half)
    angles = torch.arange(heads.shape[-2])[:, None] * rates
    if kind == "backwards":
        angles = 0.4 - 3 * angles
    turned, rest = heads[..., :columns], heads[..., columns:]
    if kind == "pairs":
        points = torch.view_as_complex(turned.unflatten(-1, (-1, 2)).contiguous())
        turns = torch.polar(torch.ones_like(angles), angles)
        return torch.cat((torch.view_as_real(points * turns).flatten(-2), rest), -1)
    left, right = turned.chunk(2, dim=-1)
    sines, cosines = angles.sin(), angles.cos()
    return torch.cat((left * cosines - right * sines, right * cosines + left * sines, rest), -1)


class Attention(nn.Module):
    """Attention in matrix products; options of `Own`."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        self.options = options
        if options["fused"]:
            self.all = nn.Linear(WIDTH, 3 * WIDTH)
        else:
            size = options["key_heads"] * WIDTH // HEADS
            self.first, self.second = (nn.Linear(WIDTH, size) for _ in "kv")
            self.third = nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor, context: Tensor, hidden_mask: Tensor) -> Tensor:
        o = self.options
        if o["fused"] and hidden is context:
            query, key, value = self.all(hidden).chunk(3, dim=-1)
        elif o["fused"]:
            query = F.linear(hidden, self.all.weight[:WIDTH], self.all.bias[:WIDTH])
            both = F.linear(context, self.all.weight[WIDTH:], self.all.bias[WIDTH:])
            key, value = both.chunk(2, dim=-1)
        else:
            key, value, query = self.first(context), self.second(context), self.third(hidden)
        if o["swapped"]:
            key, value = value, key
        size = WIDTH // HEADS
        query, key, value = (
            x.unflatten(-1, (-1, size)).transpose(1, 2) for x in (query, key, value)
        )
        if o["rotary"] and hidden is context:
            query, key = rotated(query, *o["rotary"]), rotated(key, *o["rotary"])
        repeats = HEADS // o["key_heads"]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(size)
        scores = 9 * torch.tanh(scores / 9) if o["capped"] else scores
        weights = scores.masked_fill(hidden_mask, -1e10).softmax(-1)
        return self.last(torch.matmul(weights, value).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, own: Own, crosses: bool) -> None:
        super().__init__()
        o = own.options
        self.pre, self.gated, self.activation = o["pre"], o["gated"], o["activation"]
        self.attentions = nn.ModuleList(Attention(o) for _ in range(1 + crosses))
        self.norms = nn.ModuleList(own.norm() for _ in range(2 + crosses))
        self.inner = nn.Linear(WIDTH, INNER * (2 if self.gated else 1), bias=not self.gated)
        self.outer = nn.Linear(INNER, WIDTH)

    def forward(self, hidden: Tensor, mask: Tensor, memory: Any, memory_mask: Any) -> Tensor:
        seen = [(None, mask), (memory, memory_mask)]
        parts = zip(self.attentions, self.norms, seen, strict=False)
        for attention, norm, (context, hides) in parts:
            value = norm(hidden) if self.pre else hidden
            change = attention(value, value if context is None else context, hides)
            hidden = hidden + change if self.pre else norm(hidden + change)
        value = self.norms[-1](hidden) if self.pre else hidden
        inner = self.inner(value)
        if self.gated:
            inner, gate = inner.chunk(2, dim=-1)
            change = self.outer(inner * self.activation(gate))
        else:
            change = self.outer(self.activation(inner))
        return hidden + change if self.pre else self.norms[-1](hidden + change)


OPTIONS: dict[str, Any] = (
    {"norm": "layer", "pre": False, "scale": 1.0, "key_heads": HEADS, "activation": F.relu}
    | dict.fromkeys(("fused", "gated", "swapped", "capped", "dense_head"), False)
    | {"log_softmax": False, "masks_pad": False, "adds_places": True}
    | {"rotary": None}  # or its kind and columns
)


class Own(nn.Module):
    """Learned positions, own layers, an untied output."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.options = {**OPTIONS, **options}
        o = self.options
        self.tokens = nn.ModuleList(nn.Embedding(VOCAB, WIDTH) for _ in "st")
        self.places = nn.ModuleList(nn.Embedding(40, WIDTH) for _ in "st")
        self.sides = nn.ModuleList(
            nn.ModuleList(Layer(self, crosses) for _ in range(2)) for crosses in (False, True)
        )
        self.finals = nn.ModuleList(self.norm() for _ in "st") if o["pre"] else None
        self.dense = nn.Linear(WIDTH, WIDTH) if o["dense_head"] else None
        self.output = nn.Linear(WIDTH, VOCAB)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=1.2 / math.sqrt(parameter.shape[1]))
        with torch.no_grad():
            self.output.bias[[0, 1]] = -100.0

    def norm(self) -> nn.Module:
        kind = self.options["norm"]
        return kind() if callable(kind) else Norm(kind)

    def embed(self, side: int, ids: Tensor) -> Tensor:
        hidden: Tensor = self.options["scale"] * self.tokens[side](ids)
        if not self.options["adds_places"]:
            return hidden
        return hidden + self.places[side](torch.arange(ids.shape[1]))

    def run(self, side: int, ids: Tensor, mask: Tensor, *memory: Tensor | None) -> Tensor:
        hidden = self.embed(side, ids)
        for layer in self.sides[side]:
            hidden = layer(hidden, mask, *memory)
        return hidden if self.finals is None else self.finals[side](hidden)

    def make_memory(self, ids: Tensor) -> Tensor:
        return self.run(0, ids, (ids == PAD)[:, None, None], None, None)

    def make_logits(self, ids: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        future = torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool()[None, None]
        if self.options["masks_pad"]:
            future = future | (ids == PAD)[:, None, None]
        hidden = self.run(1, ids, future, memory, padding[:, None, None])
        if self.dense is not None:
            hidden = F.gelu(self.dense(hidden))
        logits: Tensor = self.output(hidden)
        return logits.log_softmax(-1) if self.options["log_softmax"] else logits


def functions(model: Own) -> dict[str, Callable[..., Tensor]]:
    """The two functions over a model."""
    return {"encode": model.make_memory, "decode": model.make_logits}
