"""Log-probabilities of a checkpoint, computed by the training twin."""

from __future__ import annotations

import torch
from torch import Tensor

from molspec.checkpoints import Checkpoint
from molspec.model.transformer import Transformer


def twin_log_probs(checkpoint: Checkpoint, source: str, target: str) -> Tensor:
    """Log-probabilities [1 + token, vocab] after BOS and each token of `target`."""
    twin = Transformer(checkpoint.spec, dropout=0.0).eval()
    twin.load_state_dict(dict(checkpoint.weights))
    vocabulary = checkpoint.vocabulary
    source_ids = torch.tensor([vocabulary.encode(source)])
    target_ids = torch.tensor([[vocabulary.bos_id, *vocabulary.encode(target)]])
    no_padding = torch.zeros_like(source_ids, dtype=torch.bool)
    with torch.no_grad():
        logits = twin.decode(target_ids, twin.encode(source_ids, no_padding), no_padding)
    return logits.log_softmax(-1)[0]
