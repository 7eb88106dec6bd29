"""Chemformer's model with its own weight names, and the content of its Lightning checkpoint."""

import json
import math
import sys
import warnings
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

TOKENS = ("<PAD>", "?", "^", "&", "<MASK>", "<SEP>", "<RX_1>", "C", "c", "O", "N", "(", ")", "1")
WIDTH, MAX_LENGTH = 8, 40


class Chemformer(nn.Module):
    """Pre-norm layers of torch, final norms, one embedding, positions in the state dict."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (WIDTH, 2, 12, 0.1, "gelu")
        self.emb = nn.Embedding(len(TOKENS), WIDTH, padding_idx=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "enable_nested_tensor is True, but ..."
            self.encoder = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(*sizes, norm_first=True), 2, norm=nn.LayerNorm(WIDTH)
            )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(*sizes, norm_first=True), 2, norm=nn.LayerNorm(WIDTH)
        )
        self.token_fc = nn.Linear(WIDTH, len(TOKENS))
        generator = torch.Generator().manual_seed(3)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.7, generator=generator)
        positions = torch.randn(MAX_LENGTH, WIDTH, generator=generator)
        self.register_buffer("pos_emb", positions)

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Logits [length, 1, vocab] for ids [length, 1], in Chemformer's layout."""
        mask = nn.Transformer.generate_square_subsequent_mask(len(target_ids))
        memory = self.encoder(self._embed(source_ids))
        return self.token_fc(self.decoder(self._embed(target_ids), memory, tgt_mask=mask))

    def _embed(self, ids: Tensor) -> Tensor:
        return self.emb(ids) * math.sqrt(WIDTH) + self.pos_emb[: len(ids), None]


def store(model: Chemformer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The content that Lightning writes; the sampler's module is missing when it is read."""
    for package in ("molbart", "molbart.decoder"):
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    sampler = type("DecodeSampler", (), {"__module__": "molbart.decoder"})
    sys.modules["molbart.decoder"].DecodeSampler = sampler  # type: ignore[attr-defined]
    return {
        "epoch": 9,
        "pytorch-lightning_version": "1.2.3",
        "state_dict": model.state_dict(),
        "hyper_parameters": {
            "decode_sampler": sampler(),
            "pad_token_idx": 0,
            "vocabulary_size": len(TOKENS),
            "d_model": WIDTH,
            "num_layers": 2,
            "num_heads": 2,
            "d_feedforward": 12,
            "activation": "gelu",
            "max_seq_len": MAX_LENGTH,
        },
    }


SPECIAL = {"start": "^", "end": "&", "pad": "<PAD>", "unknown": "?", "mask": "<MASK>"}


VOCABULARIES = {
    "bart_vocab.json": json.dumps(
        {"properties": {"special_tokens": SPECIAL}, "vocabulary": list(TOKENS)}
    ),
    "bart_vocab.txt": "".join(f"{token}\n" for token in TOKENS),
}
