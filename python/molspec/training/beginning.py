"""What a training begins with: a new model, one to train further, or another training's state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from molspec.checkpoints import Checkpoint
from molspec.model.transformer import Transformer
from molspec.training.config import TrainConfig
from molspec.training.prepared import Prepared
from molspec.training.trainer import new_model


@dataclass(frozen=True)
class Beginning:
    """How a training begins: of a cooldown with the `state` of another training.

    fingerprint: of the weights that the model began with, where they were not drawn.
    """

    config: TrainConfig
    start: Checkpoint | None
    fingerprint: str | None
    state: dict[str, Any] | None = None

    def model(self, data: Prepared) -> Transformer:
        """The model to train. Raises ValueError where it does not go with the data."""
        config, start, pad_id = self.config, self.start, data.vocabulary.pad_id
        if start is None:
            return new_model(config.spec(data.vocabulary.size), config, pad_id)
        if config.model and self.state is None:
            raise ValueError("config.model is given with start: its sizes are kept, leave them out")
        task = data.description["task"]
        if start.task not in (None, task):
            raise ValueError(
                f"start is a model of the task {start.task!r}: the data are of {task!r}"
            )
        if start.vocabulary != data.vocabulary:
            raise ValueError(
                "start has another vocabulary: prepare the data with start's vocabulary"
            )
        model = new_model(start.spec, config, pad_id)
        model.load_state_dict({name: weight.float() for name, weight in start.weights.items()})
        return model
