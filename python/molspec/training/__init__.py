"""Training: reaction files -> prepared pairs -> a checkpoint.

The functions are `prepare`, `train` and `cool_down`; docs/training.md is the guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from molspec.training.config import PrepareOptions, TrainConfig
    from molspec.training.cooldown import cool_down
    from molspec.training.loop import Outcome, TrainingError, train
    from molspec.training.preparation import prepare
    from molspec.training.sieve import Judge
    from molspec.training.torchrun import LostProcessError
    from molspec.training.validation import Decode, Validation

_HOMES = {
    "Decode": "validation",
    "Judge": "sieve",
    "LostProcessError": "torchrun",
    "Outcome": "loop",
    "PrepareOptions": "config",
    "TrainConfig": "config",
    "TrainingError": "loop",
    "Validation": "validation",
    "cool_down": "cooldown",
    "prepare": "preparation",
    "train": "loop",
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


def __getattr__(name: str) -> Any:
    """Import torch only for names that need it: the command line's help does not."""
    if name not in _HOMES:
        raise AttributeError(f"module 'molspec.training' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"molspec.training.{_HOMES[name]}"), name)
