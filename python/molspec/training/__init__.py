"""Training: reaction files -> prepared pairs -> a checkpoint.

The functions are `prepare`, `train` and `cool_down`; docs/training.md is the guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from molspec.common.lazy import imported_when_used

if TYPE_CHECKING:
    from molspec.training.config import PrepareOptions, TrainConfig
    from molspec.training.cooldown import cool_down
    from molspec.training.loop import Outcome, TrainingError, train
    from molspec.training.preparation import prepare
    from molspec.training.sieve import Judge
    from molspec.training.torchrun import LostProcessError
    from molspec.training.validation import Decode, Validation

_HOMES = {
    "Decode": "molspec.training.validation",
    "Judge": "molspec.training.sieve",
    "LostProcessError": "molspec.training.torchrun",
    "Outcome": "molspec.training.loop",
    "PrepareOptions": "molspec.training.config",
    "TrainConfig": "molspec.training.config",
    "TrainingError": "molspec.training.loop",
    "Validation": "molspec.training.validation",
    "cool_down": "molspec.training.cooldown",
    "prepare": "molspec.training.preparation",
    "train": "molspec.training.loop",
}

__all__ = [
    "Decode",
    "Judge",
    "LostProcessError",
    "Outcome",
    "PrepareOptions",
    "TrainConfig",
    "TrainingError",
    "Validation",
    "cool_down",
    "prepare",
    "train",
]

__getattr__ = imported_when_used(__name__, _HOMES)
