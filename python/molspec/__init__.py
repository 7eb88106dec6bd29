"""molspec: fast, exact decoding of SMILES-to-SMILES transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from molspec.common.lazy import imported_when_used

if TYPE_CHECKING:
    from molspec import drafting
    from molspec.checkpoints import CheckpointError
    from molspec.decoding import Statistics
    from molspec.drop_in.compile import compile  # noqa: A004 - named as torch.compile is
    from molspec.drop_in.decode import Hypotheses, decode
    from molspec.engine import ops
    from molspec.engine.ops import get_num_threads, set_num_threads
    from molspec.model.spec import ModelSpec
    from molspec.prediction.cache import AnswerCache
    from molspec.prediction.decoder import Decoder
    from molspec.prediction.model import Model, load
    from molspec.prediction.options import PredictOptions
    from molspec.prediction.results import Prediction, Result, Results
    from molspec.text import Vocabulary

__all__ = [
    "AnswerCache",
    "CheckpointError",
    "Decoder",
    "Hypotheses",
    "Model",
    "ModelSpec",
    "PredictOptions",
    "Prediction",
    "Result",
    "Results",
    "Statistics",
    "Vocabulary",
    "compile",
    "decode",
    "drafting",
    "get_num_threads",
    "load",
    "ops",
    "set_num_threads",
]

__version__ = "0.1.0"

_NAMES = {
    "molspec.checkpoints": ("CheckpointError",),
    "molspec.decoding": ("Statistics",),
    "molspec.drafting": ("drafting",),
    "molspec.drop_in.compile": ("compile",),
    "molspec.drop_in.decode": ("Hypotheses", "decode"),
    "molspec.engine.ops": ("get_num_threads", "ops", "set_num_threads"),
    "molspec.model.spec": ("ModelSpec",),
    "molspec.prediction.cache": ("AnswerCache",),
    "molspec.prediction.decoder": ("Decoder",),
    "molspec.prediction.model": ("Model", "load"),
    "molspec.prediction.options": ("PredictOptions",),
    "molspec.prediction.results": ("Prediction", "Result", "Results"),
    "molspec.text": ("Vocabulary",),
}

__getattr__ = imported_when_used(__name__, _NAMES)


def __dir__() -> list[str]:
    return __all__
