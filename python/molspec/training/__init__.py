"""Training: reaction files -> prepared pairs -> a checkpoint.

The functions are `prepare` and `train`; docs/training.md is the guide.
"""

from typing import TYPE_CHECKING

from molspec.common.lazy import imported_when_used

if TYPE_CHECKING:
    from molspec.training.config import PrepareOptions as PrepareOptions, TrainConfig as TrainConfig
    from molspec.training.loop import (
        Outcome as Outcome,
        TrainingError as TrainingError,
        train as train,
    )
    from molspec.training.preparation import prepare as prepare
    from molspec.training.sieve import Judge as Judge
    from molspec.training.torchrun import LostProcessError as LostProcessError
    from molspec.training.validation import Decode as Decode, Validation as Validation
else:
    __getattr__, __dir__ = imported_when_used(__name__)
