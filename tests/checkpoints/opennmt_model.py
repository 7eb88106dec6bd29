"""OpenNMT-py's transformer with its own weight names, and its checkpoints of several versions."""

import argparse
import collections
import math
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

SHARED = ("<unk>", "<blank>", "<s>", "</s>", "C", "c", "O", "N", "1", "(", ")", "=")
#: A target vocabulary in another order, with one token missing and one added.
TARGET = ("<unk>", "<blank>", "<s>", "</s>", "N", "c", "O", "C", "1", "(", ")", "Br")
WIDTH, HEADS = 8, 2


class OldNorm(nn.Module):
    """The norm up to version 0.4.1: it adds eps to the unbiased standard deviation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(width))
        self.b_2 = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + 1e-6) + self.b_2


def norm(version: str) -> nn.Module:
    if "gated" in version:
        return nn.RMSNorm(WIDTH, eps=1e-6)
    return OldNorm(WIDTH) if version == "0.4.1" else nn.LayerNorm(WIDTH, eps=1e-6)


def turned(heads: Tensor) -> Tensor:
    """Heads [batch, head, length, column], of which pairs of columns are turned as numbers."""
    rates = 1 / 50 ** (torch.arange(0, heads.shape[-1], 2) / heads.shape[-1])
    angles = torch.outer(torch.arange(heads.shape[-2]).float(), rates)
    points = torch.view_as_complex(heads.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(points * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class Attention(nn.Module):
    def __init__(self, bias: bool, rotary: bool = False) -> None:
        super().__init__()
        self.rotary = rotary
        self.linear_keys = nn.Linear(WIDTH, WIDTH, bias=bias)
        self.linear_values = nn.Linear(WIDTH, WIDTH, bias=bias)
        self.linear_query = nn.Linear(WIDTH, WIDTH, bias=bias)
        self.final_linear = nn.Linear(WIDTH, WIDTH, bias=bias)

    def forward(self, x: Tensor, context: Tensor, causal: bool) -> Tensor:
        projected = (self.linear_query(x), self.linear_keys(context), self.linear_values(context))
        query, key, value = (p.unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in projected)
        if self.rotary:
            query, key = turned(query), turned(key)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return self.final_linear(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, version: str, bias: bool) -> None:
        super().__init__()
        self.w_1 = nn.Linear(WIDTH, 12, bias=bias)
        self.w_2 = nn.Linear(12, WIDTH, bias=bias)
        self.w_3 = nn.Linear(WIDTH, 12, bias=bias) if "gated" in version else None
        self.layer_norm = norm(version)

    def forward(self, x: Tensor) -> Tensor:
        normalised = self.layer_norm(x)
        inner = self.w_1(normalised)
        if self.w_3 is None:
            return x + self.w_2(inner.relu())
        return x + self.w_2(nn.functional.gelu(inner) * self.w_3(normalised))


class EncoderLayer(nn.Module):
    def __init__(self, version: str, bias: bool) -> None:
        super().__init__()
        self.self_attn = Attention(bias, "rotary" in version)
        self.feed_forward = FeedForward(version, bias)
        self.layer_norm = norm(version)

    def forward(self, x: Tensor) -> Tensor:
        normalised = self.layer_norm(x)
        return self.feed_forward(x + self.self_attn(normalised, normalised, False))


class DecoderLayer(nn.Module):
    def __init__(self, version: str, bias: bool) -> None:
        super().__init__()
        self.self_attn = Attention(bias, "rotary" in version)
        self.context_attn = Attention(bias)
        self.feed_forward = FeedForward(version, bias)
        self.layer_norm_1 = norm(version)
        self.layer_norm_2 = norm(version)
        if version == "0.4.1":
            self.register_buffer("mask", torch.zeros(1, 5, 5))

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        normalised = self.layer_norm_1(x)
        x = x + self.self_attn(normalised, normalised, True)
        return self.feed_forward(x + self.context_attn(self.layer_norm_2(x), memory, False))


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        angles = torch.arange(1500)[:, None] / 10000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)
        self.register_buffer("pe", table[:, None])


class Embeddings(nn.Module):
    def __init__(self, size: int, version: str) -> None:
        super().__init__()
        self.adds = "rotary" not in version
        self.make_embedding = nn.Sequential()
        self.make_embedding.add_module("emb_luts", nn.ModuleList([nn.Embedding(size, WIDTH)]))
        if self.adds:
            self.make_embedding.add_module("pe", Positions())

    def forward(self, ids: Tensor) -> Tensor:
        rows = self.make_embedding.emb_luts[0](ids)
        if not self.adds:
            return rows
        return rows * math.sqrt(WIDTH) + self.make_embedding.pe.pe[: ids.shape[1], 0]


class OpenNMT(nn.Module):
    """One model; if `shared`, source and target have the same vocabulary and embedding."""

    def __init__(self, version: str, shared: bool, bias: bool = True) -> None:
        super().__init__()
        self.version, self.source = version, SHARED
        self.target = SHARED if shared else TARGET
        embeddings = Embeddings(len(SHARED), version)
        self.encoder = nn.Module()
        self.encoder.embeddings = embeddings
        self.encoder.transformer = nn.ModuleList(EncoderLayer(version, bias) for _ in range(2))
        self.encoder.layer_norm = norm(version)
        self.decoder = nn.Module()
        self.decoder.embeddings = embeddings if shared else Embeddings(len(TARGET), version)
        self.decoder.transformer_layers = nn.ModuleList(
            DecoderLayer(version, bias) for _ in range(3)
        )
        self.decoder.layer_norm = norm(version)
        linear = nn.Linear(WIDTH, len(self.target))
        self.generator = (
            linear if version.startswith("3.5") else nn.Sequential(linear, nn.LogSoftmax(-1))
        )
        generator = torch.Generator().manual_seed(3)
        for name, parameter in self.named_parameters():
            nn.init.normal_(parameter, std=0.5, generator=generator)
            if "norm.a_2" in name or "norm.weight" in name:
                nn.init.normal_(parameter, 1.0, 0.2, generator=generator)

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        memory = self.encoder.embeddings(source_ids)
        for layer in self.encoder.transformer:
            memory = layer(memory)
        memory = self.encoder.layer_norm(memory)
        hidden = self.decoder.embeddings(target_ids)
        for layer in self.decoder.transformer_layers:
            hidden = layer(hidden, memory)
        return self.generator(self.decoder.layer_norm(hidden)).log_softmax(-1)


def store(model: OpenNMT, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The content of a checkpoint of the model's version."""
    state = {k: v for k, v in model.state_dict().items() if "generator" not in k}
    options: dict[str, Any] = {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "heads": HEADS,
        "copy_attn": False,
        "generator_function": "log_softmax" if model.version == "0.4.1" else "softmax",
        "self_attn_type": "scaled-dot",
    }
    if model.version != "0.4.1":
        options |= {"max_relative_positions": 0, "pos_ffn_activation_fn": "relu"}
    if model.version.startswith("3.5"):
        options |= {"norm_eps": 1e-6, "layer_norm": "standard", "lora_layers": [], "num_kv": 0}
    if "gated" in model.version:
        options |= {"layer_norm": "rms", "pos_ffn_activation_fn": "gated-gelu"}
    if "rotary" in model.version:
        options |= {"max_relative_positions": -1, "position_encoding": False}
        options |= {"rotary_theta": 50, "rotary_dim": 0, "rotary_interleave": True}
    return {
        "model": state,
        "generator": model.generator.state_dict(),
        "vocab": _vocabularies(model, monkeypatch),
        "opt": argparse.Namespace(**options),
        "optim": {"state": {}},
    }


def _vocabularies(model: OpenNMT, monkeypatch: pytest.MonkeyPatch) -> Any:
    source, target = list(model.source), list(model.target)
    if model.version.startswith("3.5"):
        return {"src": source, "tgt": target, "data_task": "seq2seq", "decoder_start_token": "<s>"}
    vocab = stand_in("torchtext.vocab", "Vocab", monkeypatch)
    sides = {"src": vocab(), "tgt": vocab()}
    for side, tokens in (("src", source), ("tgt", target)):
        sides[side].itos = tokens
        sides[side].stoi = collections.defaultdict(int, {t: i for i, t in enumerate(tokens)})
        sides[side].freqs = collections.Counter(tokens)
    if model.version == "0.4.1":
        return [*sides.items(), ("indices", vocab())]
    field = stand_in("torchtext.data.field", "Field", monkeypatch)
    multi_field = stand_in("onmt.inputters.text_dataset", "TextMultiField", monkeypatch)
    fields = {}
    for side in sides:
        inner, fields[side] = field(), multi_field()
        inner.vocab, inner.include_lengths = sides[side], True
        fields[side].fields = [(side, inner)]
    return fields


def stand_in(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> type:
    """A class that pickles under the name of a library's class while the patch is active."""
    stand_in = type(name, (), {"__module__": module})
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        package = ".".join(parts[:end])
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    setattr(sys.modules[module], name, stand_in)
    return stand_in
