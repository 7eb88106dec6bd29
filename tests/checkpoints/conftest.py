from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from molspec.checkpoints import Checkpoint
from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary

TOKENS = ("<PAD>", "<BOS>", "<EOS>", "?", "C", "O", "c")


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS, unk_id=3)


@pytest.fixture
def spec() -> ModelSpec:
    return ModelSpec(
        source_vocab_size=len(TOKENS),
        target_vocab_size=len(TOKENS),
        d_model=8,
        head_count=2,
        encoder_layers=1,
        decoder_layers=2,
        feed_forward=12,
    )


@pytest.fixture
def checkpoint(spec: ModelSpec, vocabulary: Vocabulary) -> Checkpoint:
    generator = torch.Generator().manual_seed(1)
    weights = {
        name: torch.randn(shape, generator=generator)
        for name, shape in spec.weight_shapes().items()
    }
    return Checkpoint(spec, weights, vocabulary, ngram=b"\0\1counts", card="# A card\n")


class PaperModel(nn.Module):
    """The modules of the paper's model, by the paper's names, out of torch's own transformer."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.src_token_featurizer = nn.ModuleDict(
            {"embedding": nn.Embedding(spec.source_vocab_size, spec.d_model)}
        )
        self.tgt_token_featurizer = (
            self.src_token_featurizer
            if spec.shared_embedding
            else nn.ModuleDict({"embedding": nn.Embedding(spec.target_vocab_size, spec.d_model)})
        )
        self.transformer = nn.Transformer(
            spec.d_model,
            spec.head_count,
            spec.encoder_layers,
            spec.decoder_layers,
            spec.feed_forward,
            dropout=0.0,
            batch_first=True,
        )
        self.next_token_classifier = nn.Linear(spec.d_model, spec.target_vocab_size)
        generator = torch.Generator().manual_seed(2)
        for parameter in self.parameters():
            nn.init.normal_(parameter, generator=generator)


@pytest.fixture
def paper_model(spec: ModelSpec) -> PaperModel:
    return PaperModel(spec)


@pytest.fixture
def stored(paper_model: PaperModel, spec: ModelSpec) -> dict[str, Any]:
    """What the paper's Lightning checkpoint holds, with what Lightning adds."""
    return {
        "epoch": 3,
        "pytorch-lightning_version": "2.1.0",
        "state_dict": {f"model.{name}": value for name, value in paper_model.state_dict().items()},
        "optimizer_states": [{"state": {}, "param_groups": [{"lr": 1e-3}]}],
        "hparams_name": "kwargs",
        "hyper_parameters": {
            "embedding_dim": spec.d_model,
            "feedforward_dim": spec.feed_forward,
            "num_encoder_layers": spec.encoder_layers,
            "num_decoder_layers": spec.decoder_layers,
            "num_heads": spec.head_count,
            "dropout_rate": 0.1,
            "activation": "relu",
            "share_embeddings": True,
            "learning_rate": 3e-4,
            "beam_size": 5,
        },
    }


@pytest.fixture
def save_lightning(tmp_path: Path) -> Callable[[Any], Path]:
    """Write a folder with model.ckpt and vocab.json; gives the folder."""

    def save(stored: Any) -> Path:
        folder = tmp_path / "lightning"
        folder.mkdir(exist_ok=True)
        torch.save(stored, folder / "model.ckpt")
        pairs = ", ".join(f'"{index}": "{token}"' for index, token in enumerate(TOKENS))
        (folder / "vocab.json").write_text(f"{{{pairs}}}")
        return folder

    return save
