"""Trains draft heads for a model, whose own weights stay fixed or are trained jointly."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from molspec.checkpoints import Checkpoint
from molspec.model.heads import HeadsWeights, new_heads
from molspec.model.transformer import Transformer
from molspec.training import drafters, trainer
from molspec.training.config import HeadsConfig
from molspec.training.optimizers import BETAS, SHARE, grouped

#: The factor of the next head's loss: a farther token is accepted only if all before it are right.
_DECAY = 0.9
#: The model's own weights, which are trained already, take this share of the new heads' steps.
_MODELS_SHARE = 0.1
_CARD = """# A model trained jointly with its draft heads

Begun with the model {fingerprint}, whose weights were trained on along with the heads (Stern et al.
2018): its answers are others, and how good they are has to be measured anew.
"""


class HeadsTrainer(drafters.DrafterTrainer):
    """Steps of training heads on the answers of a model, or on true targets jointly with it."""

    name = "heads"

    config: HeadsConfig

    def _begin(self, checkpoint: Checkpoint) -> tuple[nn.Module, list[Optimizer]]:
        config = self.config
        weights = {name: weight.float() for name, weight in checkpoint.weights.items()}
        self.model = Transformer(checkpoint.spec, 0.0, checkpoint.vocabulary.pad_id).eval()
        self.model.load_state_dict(weights)
        # In joint training, the shared classifier must be the model's own parameter.
        shared = dict(self.model.named_parameters()) if config.joint else weights
        self.heads = new_heads(config.heads, checkpoint.spec, shared)
        module: nn.Module = self.heads
        groups = grouped(self.heads.parameters())
        if config.joint:
            module = nn.ModuleDict({"heads": self.heads, "model": self.model})
            groups += grouped(self.model.parameters(), **{SHARE: _MODELS_SHARE})
        rate, decay = config.learning_rate, config.weight_decay
        return module, [torch.optim.AdamW(groups, rate, BETAS, weight_decay=decay)]

    def grown(self, checkpoint: Checkpoint) -> Checkpoint:
        """The model with the current heads; if trained jointly, without other drafters."""
        heads = HeadsWeights(self.heads.spec, self.heads.state_dict())
        if not self.config.joint:
            return replace(checkpoint, heads=heads)
        card = _CARD.format(fingerprint=checkpoint.fingerprint(with_drafters=False)[:8])
        made = replace(
            checkpoint,
            weights=self.model.state_dict(),
            card=card,
            heads=None,
            spec_drafter=None,
            runs_in={},
        )
        return replace(made.to(checkpoint.dtype), heads=heads)

    def _guess(self, source_ids: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """The weighted loss of the heads in nats a token; each head's share of right guesses."""
        config, pad_id = self.config, self.model.pad_id
        with trainer.autocast(target_ids.device, config.precision):
            with torch.set_grad_enabled(config.joint):
                padding = source_ids == pad_id
                memory = self.model.encode(source_ids, padding)
                hidden = self.model.hidden_states(target_ids[:, :-1], memory, padding)
            loss, hits = self._heads_loss(hidden, target_ids)
            if config.joint:
                logits = self.model.logits(hidden).float().transpose(1, 2)
                loss = loss + F.cross_entropy(logits, target_ids[:, 1:], ignore_index=pad_id)
        return loss, hits

    def _heads_loss(self, hidden: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """The heads' loss from hidden states [pair, position, d_model] of targets without EOS.

        The state after a target's token i chooses token i + 1; head k guesses token i + 2 + k. PAD,
        after EOS, is ignored.
        """
        pad_id, count = self.model.pad_id, self.heads.spec.head_count
        ahead = F.pad(target_ids[:, 2:], (0, count), value=pad_id)
        windows = ahead.unfold(1, count, 1)[:, : hidden.shape[1]]
        begun = windows[..., 0] != pad_id
        logits, wanted = self.heads(hidden[begun]).float(), windows[begun]
        there = wanted != pad_id
        nats = F.cross_entropy(logits.transpose(1, 2), wanted, reduction="none") * there
        weights = torch.tensor([_DECAY**head for head in range(count)])
        loss = (nats.sum(0) / there.sum(0).clamp(min=1) * weights).sum() / weights.sum()
        hits = ((logits.argmax(-1) == wanted) & there).sum(0) / there.sum(0).clamp(min=1)
        return loss, hits.detach()
