"""Training draft heads for a model, whose own weights stay as they are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from molspec.checkpoints import Checkpoint
from molspec.model.heads import HeadsSpec, HeadsWeights, new_heads
from molspec.model.transformer import Transformer
from molspec.training.drafters import DrafterConfig, DrafterTraining
from molspec.training.prepared import PairTable

#: The next head counts so much less: what lies far is drafted only where all before is right.
_DECAY = 0.9
_BETAS = (0.9, 0.98)


@dataclass(frozen=True, kw_only=True)
class HeadsConfig(DrafterConfig):
    """What decides the weights of draft heads, beside model and data."""

    heads: HeadsSpec = field(default_factory=HeadsSpec)


class HeadsTraining(DrafterTraining):
    """Steps of training heads on the answers of a model, with its hidden states."""

    names = ("heads", "tree+heads")

    def __init__(
        self, checkpoint: Checkpoint, answers: PairTable, config: HeadsConfig, path: Path
    ) -> None:
        torch.manual_seed(config.seed)
        weights = {name: weight.float() for name, weight in checkpoint.weights.items()}
        self._model = Transformer(checkpoint.spec, 0.0, checkpoint.vocabulary.pad_id).eval()
        self._model.load_state_dict(weights)
        self.heads = new_heads(config.heads, checkpoint.spec, weights)
        optimizer = torch.optim.AdamW(
            self.heads.parameters(),
            lr=config.learning_rate,
            betas=_BETAS,
            weight_decay=config.weight_decay,
        )
        super().__init__(self.heads, [optimizer], checkpoint, answers, config, path)

    def grown(self, checkpoint: Checkpoint) -> Checkpoint:
        """The model with the heads as they are now."""
        return replace(checkpoint, heads=HeadsWeights(self.heads.spec, self.heads.state_dict()))

    def _loss(self, source_ids: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Nats a token, the heads weighted; and each head's share of right guesses."""
        hidden, wanted = self._guessed(source_ids, target_ids)
        logits = self.heads(hidden)
        there = wanted != self._model.pad_id
        nats = F.cross_entropy(logits.transpose(1, 2), wanted, reduction="none") * there
        weights = torch.tensor([_DECAY**head for head in range(wanted.shape[1])])
        loss = (nats.sum(0) / there.sum(0).clamp(min=1) * weights).sum() / weights.sum()
        hits = ((logits.argmax(-1) == wanted) & there).sum(0) / there.sum(0).clamp(min=1)
        return loss, hits.detach()

    def _guessed(self, source_ids: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states [position, d_model], and what heads are to guess [position, head].

        The state behind a target's token i has chosen token i + 1; head k guesses token i + 2 + k.
        Beyond EOS stands PAD, which counts for nothing.
        """
        pad_id, count = self._model.pad_id, self.heads.spec.head_count
        with torch.no_grad():
            padding = source_ids == pad_id
            memory = self._model.encode(source_ids, padding)
            inputs = target_ids[:, :-1]
            hidden = self._model.hidden_states(inputs, memory, padding)
        ahead = F.pad(target_ids[:, 2:], (0, count), value=pad_id)
        windows = ahead.unfold(1, count, 1)[:, : inputs.shape[1]]
        there = windows[..., 0] != pad_id
        return hidden[there], windows[there]
