"""Training draft heads for a model, whose own weights stay as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from molspec.checkpoints import Checkpoint
from molspec.model.heads import HeadsSpec, HeadsWeights, new_heads
from molspec.model.transformer import Transformer
from molspec.training.batches import Batches
from molspec.training.prepared import PairTable
from molspec.training.trainer import learning_rate_factor

#: The next head counts so much less: what lies far is drafted only where all before is right.
_DECAY = 0.9
_SAVED_STEPS = 100
_BETAS = (0.9, 0.98)


@dataclass(frozen=True)
class HeadsConfig:
    """What decides the weights of draft heads, beside model and data.

    Raises ValueError, naming the field, where a value makes no sense.
    """

    heads: HeadsSpec
    steps: int = 2000
    batch_tokens: int = 4096
    learning_rate: float = 2e-3
    warm_up: float = 0.04
    weight_decay: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_tokens", "learning_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}: expected more than 0")


class HeadsTraining:
    """Steps of training heads on the answers of a model, with its hidden states.

    Its state is kept in `path` every so many steps: the same training gone on with ends with the
    same weights, to the bit on a CPU with as many threads.

    Raises ValueError where `path` holds another training.
    """

    def __init__(
        self, checkpoint: Checkpoint, answers: PairTable, config: HeadsConfig, path: Path
    ) -> None:
        torch.manual_seed(config.seed)
        weights = {name: weight.float() for name, weight in checkpoint.weights.items()}
        self._model = Transformer(checkpoint.spec, 0.0, checkpoint.vocabulary.pad_id).eval()
        self._model.load_state_dict(weights)
        self.heads = new_heads(config.heads, checkpoint.spec, weights)
        self._config, self._path = config, path
        device = torch.device("cpu")
        self._batches = Batches(
            answers, checkpoint.spec, checkpoint.vocabulary, config.batch_tokens, device
        )
        self._optimizer = torch.optim.AdamW(
            self.heads.parameters(),
            lr=config.learning_rate,
            betas=_BETAS,
            weight_decay=config.weight_decay,
        )
        self._is_of = {"config": asdict(config), "model": checkpoint.fingerprint(False)}
        self.step_count = 0
        #: The part of tokens that each head guesses right, averaged over the last steps.
        self.accuracy = torch.zeros(config.heads.head_count)
        if path.exists():
            self._restore(torch.load(path, weights_only=True))

    def run(self) -> Iterator[int]:
        """Take the steps that are left; gives their numbers."""
        for source_ids, target_ids in self._rest():
            self._step(source_ids, target_ids)
            self.step_count += 1
            done = self.step_count == self._config.steps
            if done or self.step_count % _SAVED_STEPS == 0:
                self._save()
            yield self.step_count

    def weights(self) -> HeadsWeights:
        """The heads as a checkpoint has them."""
        return HeadsWeights(self._config.heads, self.heads.state_dict())

    def _rest(self) -> Iterator[tuple[Tensor, Tensor]]:
        number, passed = 0, 0
        while self.step_count < self._config.steps:
            epoch = self._batches.epoch(self._config.seed, number)
            for index in range(len(epoch)):
                if passed + index < self.step_count:
                    continue
                if self.step_count == self._config.steps:
                    return
                yield self._batches.take(epoch, index)
            passed += len(epoch)
            number += 1

    def _step(self, source_ids: Tensor, target_ids: Tensor) -> None:
        progress = self.step_count / self._config.steps
        for group in self._optimizer.param_groups:
            group["lr"] = self._config.learning_rate * learning_rate_factor(
                progress, self._config.warm_up
            )
        hidden, wanted = self._guessed(source_ids, target_ids)
        loss, hits = _loss(self.heads(hidden), wanted, self._model.pad_id)
        self.accuracy = hits if self.step_count == 0 else 0.98 * self.accuracy + 0.02 * hits
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.heads.parameters(), 1.0)
        self._optimizer.step()

    def _guessed(self, source_ids: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states [position, d_model], and what heads are to guess [position, head].

        The state behind a target's token i has chosen token i + 1; head k guesses token i + 2 + k.
        Beyond EOS stands PAD, which counts for nothing.
        """
        pad_id, count = self._model.pad_id, self._config.heads.head_count
        with torch.no_grad():
            padding = source_ids == pad_id
            memory = self._model.encode(source_ids, padding)
            inputs = target_ids[:, :-1]
            hidden = self._model.hidden_states(inputs, memory, padding)
        ahead = F.pad(target_ids[:, 2:], (0, count), value=pad_id)
        windows = ahead.unfold(1, count, 1)[:, : inputs.shape[1]]
        there = windows[..., 0] != pad_id
        return hidden[there], windows[there]

    def _save(self) -> None:
        unfinished = self._path.with_name(self._path.name + ".unfinished")
        state = {
            "heads": self.heads.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "accuracy": self.accuracy,
            "step_count": self.step_count,
        }
        torch.save({**self._is_of, **state}, unfinished)
        os.replace(unfinished, self._path)

    def _restore(self, state: dict[str, Any]) -> None:
        for name, value in self._is_of.items():
            if state[name] != value:
                raise ValueError(
                    f"{self._path} holds a training of heads with the {name} {state[name]}: "
                    f"expected {value}; take another output folder to begin anew"
                )
        self.heads.load_state_dict(state["heads"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.accuracy, self.step_count = state["accuracy"], state["step_count"]


def _loss(logits: Tensor, wanted: Tensor, pad_id: int) -> tuple[Tensor, Tensor]:
    """Nats a token, the heads weighted; and each head's share of right guesses."""
    there = wanted != pad_id
    nats = F.cross_entropy(logits.transpose(1, 2), wanted, reduction="none") * there
    weights = torch.tensor([_DECAY**head for head in range(wanted.shape[1])])
    loss = (nats.sum(0) / there.sum(0).clamp(min=1) * weights).sum() / weights.sum()
    hits = ((logits.argmax(-1) == wanted) & there).sum(0) / there.sum(0).clamp(min=1)
    return loss, hits.detach()
