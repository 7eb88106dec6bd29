"""Logits of a checkpoint, computed by the training twin."""

import torch
from torch import Tensor

from molspec.checkpoints import Checkpoint
from molspec.model.transformer import Transformer


def twin_logits(checkpoint: Checkpoint, source_ids: Tensor, target_ids: Tensor) -> Tensor:
    """Logits [row, token, vocab] for ids without padding, BOS and EOS included."""
    twin = Transformer(checkpoint.spec, dropout=0.0).eval()
    twin.load_state_dict(dict(checkpoint.weights))
    no_padding = torch.zeros_like(source_ids, dtype=torch.bool)
    with torch.no_grad():
        return twin.decode(target_ids, twin.encode(source_ids, no_padding), no_padding)


def twin_log_probs(checkpoint: Checkpoint, source: str, target: str) -> Tensor:
    """Log-probabilities [1 + token, vocab] after BOS and each token of `target`."""
    vocabulary, spec = checkpoint.vocabulary, checkpoint.spec
    begin, end = [vocabulary.bos_id] * spec.source_bos, [vocabulary.eos_id] * spec.source_eos
    source_ids = torch.tensor([[*begin, *vocabulary.encode(source), *end]])
    target_ids = torch.tensor([[vocabulary.bos_id, *vocabulary.encode(target)]])
    return twin_logits(checkpoint, source_ids, target_ids).log_softmax(-1)[0]
