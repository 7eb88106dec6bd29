"""The model of Andronov et al. with its checkpoints' names, built from torch's transformer."""

from typing import Any

import torch
from torch import nn

from molspec.model.spec import ModelSpec


class PaperModel(nn.Module):
    """The paper's model with the paper's module names and random weights."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
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


def store(model: PaperModel) -> dict[str, Any]:
    """The content of the paper's Lightning checkpoint, with the fields that Lightning adds."""
    spec = model.spec
    return {
        "epoch": 3,
        "pytorch-lightning_version": "2.1.0",
        "state_dict": {f"model.{name}": value for name, value in model.state_dict().items()},
        "optimizer_states": [{"state": {}, "param_groups": [{"lr": 1e-3}]}],
        "hparams_name": "kwargs",
        "hyper_parameters": {
            "embedding_dim": spec.d_model,
            "feedforward_dim": spec.feed_forward,
            "num_encoder_layers": spec.encoder_layers,
            "num_decoder_layers": spec.decoder_layers,
            "num_heads": spec.head_count,
            "dropout_rate": 0.1,
            "activation": spec.activation,
            "share_embeddings": spec.shared_embedding,
            "learning_rate": 3e-4,
            "beam_size": 5,
        },
    }
