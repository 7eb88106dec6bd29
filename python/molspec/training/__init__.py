"""Training: reaction files -> prepared pairs -> a checkpoint.

`prepare` and `train` are the whole of it; docs/training.md shows the way.
"""

from molspec.training.config import TrainConfig
from molspec.training.prepare import PrepareOptions, prepare
from molspec.training.train import Outcome, TrainingError, train
from molspec.training.validation import Decode, Validation

__all__ = [
    "Decode",
    "Outcome",
    "PrepareOptions",
    "TrainConfig",
    "TrainingError",
    "Validation",
    "prepare",
    "train",
]
