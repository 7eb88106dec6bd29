"""What trainings of a model's drafters share: steps over its answers that no kill undoes."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from molspec.checkpoints import Checkpoint
from molspec.training.batches import Batches
from molspec.training.optimizers import set_learning_rate
from molspec.training.prepared import PairTable
from molspec.training.trainer import learning_rate_factor

_SAVED_STEPS = 100


@dataclass(frozen=True, kw_only=True)
class DrafterConfig:
    """What decides the weights of a drafter, beside model, data and the drafter's form.

    Raises ValueError, naming the field, where a value makes no sense.
    """

    steps: int = 2000
    #: Padded tokens of a batch, source and target together.
    batch_tokens: int = 4096
    learning_rate: float = 2e-3
    warm_up: float = 0.04
    weight_decay: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_tokens", "learning_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}: expected more than 0")


class DrafterTraining(ABC):
    """Steps of training what is `learnt` on the answers of a model.

    Its state is kept in `path` every so many steps: the same training gone on with ends with the
    same weights, to the bit on a CPU with as many threads.

    Raises ValueError where `path` holds another training.
    """

    #: Of the drafters that the trained one makes.
    names: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        learnt: nn.Module,
        optimizers: Sequence[Optimizer],
        checkpoint: Checkpoint,
        answers: PairTable,
        config: DrafterConfig,
        path: Path,
    ) -> None:
        self._learnt, self._optimizers = learnt, optimizers
        self.config, self._path = config, path
        device = torch.device("cpu")
        self._batches = Batches(
            answers, checkpoint.spec, checkpoint.vocabulary, config.batch_tokens, device
        )
        self._is_of = {"config": asdict(config), "model": checkpoint.fingerprint(False)}
        self.step_count = 0
        #: The part of tokens that is guessed right, by place, averaged over the last steps.
        self.accuracy = torch.zeros(())
        if path.exists():
            self._restore(torch.load(path, weights_only=True))

    @abstractmethod
    def _loss(self, source_ids: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Give the loss of a batch, and each place's share of right guesses."""

    @abstractmethod
    def grown(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """The model with the drafter as it is now; None where no engine runs such a drafter."""

    def told(self, checkpoint: Checkpoint, validation: PairTable) -> str:
        """What it has come to."""
        hits = ", ".join(f"{100 * share:.0f}" for share in self.accuracy.tolist())
        return f"per cent of tokens that are guessed right, the nearest first: {hits}"

    @property
    def progress(self) -> float:
        """The share of the steps that are done."""
        return self.step_count / self.config.steps

    def run(self) -> Iterator[int]:
        """Take the steps that are left; gives their numbers."""
        for source_ids, target_ids in self._rest():
            self._step(source_ids, target_ids)
            self.step_count += 1
            done = self.step_count == self.config.steps
            if done or self.step_count % _SAVED_STEPS == 0:
                self._save()
            yield self.step_count

    def _rest(self) -> Iterator[tuple[Tensor, Tensor]]:
        number, passed = 0, 0
        while self.step_count < self.config.steps:
            epoch = self._batches.epoch(self.config.seed, number)
            for index in range(max(0, self.step_count - passed), len(epoch)):
                if self.step_count == self.config.steps:
                    return
                yield self._batches.take(epoch, index)
            passed += len(epoch)
            number += 1

    def _step(self, source_ids: Tensor, target_ids: Tensor) -> None:
        factor = learning_rate_factor(self.progress, self.config.warm_up)
        set_learning_rate(self._optimizers, self.config.learning_rate * factor)
        loss, hits = self._loss(source_ids, target_ids)
        self.accuracy = hits if self.step_count == 0 else 0.98 * self.accuracy + 0.02 * hits
        self._learnt.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self._learnt.parameters(), 1.0)
        for optimizer in self._optimizers:
            optimizer.step()

    def _save(self) -> None:
        unfinished = self._path.with_name(self._path.name + ".unfinished")
        state = {
            "learnt": self._learnt.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
            "accuracy": self.accuracy,
            "step_count": self.step_count,
        }
        torch.save({**self._is_of, **state}, unfinished)
        os.replace(unfinished, self._path)

    def _restore(self, state: dict[str, Any]) -> None:
        for name, value in self._is_of.items():
            if state[name] != value:
                raise ValueError(
                    f"{self._path} holds a training of a drafter with the {name} {state[name]}: "
                    f"expected {value}; take another output folder to begin anew"
                )
        self._learnt.load_state_dict(state["learnt"])
        for optimizer, stored in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(stored)
        self.accuracy, self.step_count = state["accuracy"], state["step_count"]
