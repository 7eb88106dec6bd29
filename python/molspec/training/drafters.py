"""Shared by trainings of a model's drafters: resumable steps over the model's answers."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from molspec.checkpoints import Checkpoint
from molspec.common.journal import check_same
from molspec.training import folder, torchrun, trainer
from molspec.training.batches import Batches
from molspec.training.config import DrafterConfig
from molspec.training.prepared import EncodedPairs, digest

_SAVED_STEPS = 100


class DrafterTrainer(trainer.Trainer):
    """Steps of training `module` on the answers of a model.

    Its state is saved in the file `path` at regular steps: a resumed training ends with the same
    weights, to the bit on a CPU with the same number of threads.

    Raises ValueError if `path` has another training.
    """

    #: The name of the drafter that uses the trained module.
    name: ClassVar[str]
    config: DrafterConfig

    def __init__(
        self, checkpoint: Checkpoint, answers: EncodedPairs, config: DrafterConfig, path: Path
    ) -> None:
        torch.manual_seed(config.seed)
        self.config, self._path = config, path
        module, optimizers = self._begin(checkpoint)
        shared = (checkpoint.spec, checkpoint.vocabulary)
        batches = Batches(answers, *shared, config.batch_tokens, torch.device("cpu"))
        super().__init__(module, optimizers, batches, config, torchrun.Ranks())
        self._identity = {
            "config": asdict(config),
            "model": checkpoint.fingerprint(False),
            "data": digest(answers),
        }
        #: The share of right guesses by position, averaged over the last steps.
        self.accuracy = torch.zeros(())
        if path.exists():
            self.restore(folder.read_state(path))

    @staticmethod
    def check(config: Any, checkpoint: Checkpoint) -> None:
        """Raise ValueError if a drafter of this config does not fit the model."""

    @abstractmethod
    def _begin(self, checkpoint: Checkpoint) -> tuple[nn.Module, list[Optimizer]]:
        """Make the trained module, with random numbers of the seed, and its optimisers."""

    @abstractmethod
    def _guess(self, source_ids: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and the share of right guesses by position."""

    @abstractmethod
    def grown(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """The model with the current drafter; None if no engine runs such a drafter."""

    def summary(self, checkpoint: Checkpoint, validation: EncodedPairs) -> str:
        """The share of right guesses, in words."""
        hits = ", ".join(f"{100 * share:.0f}" for share in self.accuracy.tolist())
        return f"per cent of tokens that are guessed right, the nearest first: {hits}"

    @property
    def progress(self) -> float:
        """The share of finished steps."""
        return self.step_count / self.config.steps

    def run(self) -> Iterator[int]:
        """Take the remaining steps; yield their numbers."""
        while self.step_count < self.config.steps:
            self.step(self.progress)
            if self.step_count == self.config.steps or self.step_count % _SAVED_STEPS == 0:
                folder.write_state(self._path, self.state())
            yield self.step_count

    def _loss(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        loss, hits = self._guess(source_ids, target_ids)
        self.accuracy = hits if self.step_count == 0 else 0.98 * self.accuracy + 0.02 * hits
        return loss

    def state(self) -> dict[str, Any]:
        """Everything that decides the next steps, and the identity of the training."""
        return {**super().state(), "of": self._identity, "accuracy": self.accuracy}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state of `state`. Raises ValueError for that of another training."""
        holds = f"{self._path} holds a training of a drafter"
        check_same(self._identity, state.get("of", {}), holds, folder.ANEW)
        super().restore(state)
        self.accuracy = state["accuracy"]
