"""molspec: fast, exact decoding of SMILES-to-SMILES transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "AnswerCache": "molspec.prediction.cache",
    "CheckpointError": "molspec.checkpoints",
    "Decoder": "molspec.prediction.decoder",
    "Hypotheses": "molspec.drop_in.decode",
    "ModelSpec": "molspec.model.spec",
    "PredictOptions": "molspec.prediction.options",
    "Prediction": "molspec.prediction.results",
    "Result": "molspec.prediction.results",
    "Results": "molspec.prediction.results",
    "Statistics": "molspec.decoding",
    "Vocabulary": "molspec.text",
    "compile": "molspec.drop_in.compile",
    "decode": "molspec.drop_in.decode",
    "get_num_threads": "molspec.engine.ops",
    "set_num_threads": "molspec.engine.ops",
}

_MODULES = {"drafting": "molspec.drafting", "ops": "molspec.engine.ops"}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import torch only when a name that needs it is used: `molspec --help` is quick."""
    if name not in __all__:
        raise AttributeError(f"module 'molspec' has no attribute {name!r}")
    from importlib import import_module

    if name in _MODULES:
        return import_module(_MODULES[name])
    return getattr(import_module(_HOMES.get(name, "molspec.prediction.model")), name)
