"""Training: reaction files -> prepared pairs -> a checkpoint.

The functions are `prepare` and `train`; docs/training.md is the guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from molspec.common.lazy import imported_when_used

if TYPE_CHECKING:
    from molspec.training.config import PrepareOptions, TrainConfig
    from molspec.training.loop import Outcome, TrainingError, train
    from molspec.training.preparation import prepare
    from molspec.training.sieve import Judge
    from molspec.training.torchrun import LostProcessError
    from molspec.training.validation import Decode, Validation

__all__ = [
    "Decode",
    "Judge",
    "LostProcessError",
    "Outcome",
    "PrepareOptions",
    "TrainConfig",
    "TrainingError",
    "Validation",
    "prepare",
    "train",
]

_NAMES = {
    "molspec.training.config": ("PrepareOptions", "TrainConfig"),
    "molspec.training.loop": ("Outcome", "TrainingError", "train"),
    "molspec.training.preparation": ("prepare",),
    "molspec.training.sieve": ("Judge",),
    "molspec.training.torchrun": ("LostProcessError",),
    "molspec.training.validation": ("Decode", "Validation"),
}

__getattr__ = imported_when_used(__name__, _NAMES)
