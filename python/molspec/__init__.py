"""molspec: fast, exact decoding of SMILES-to-SMILES transformers."""

from typing import TYPE_CHECKING

from molspec.common.lazy import imported_when_used

__version__ = "0.1.0"

if TYPE_CHECKING:
    from molspec import drafting as drafting
    from molspec.checkpoints import CheckpointError as CheckpointError
    from molspec.decoding import Statistics as Statistics
    from molspec.drop_in.compile import compile as compile  # noqa: A004 - named as torch.compile is
    from molspec.drop_in.decode import Hypotheses as Hypotheses, decode as decode
    from molspec.engine import ops as ops
    from molspec.engine.ops import (
        get_num_threads as get_num_threads,
        set_num_threads as set_num_threads,
    )
    from molspec.model.spec import ModelSpec as ModelSpec
    from molspec.prediction.cache import AnswerCache as AnswerCache
    from molspec.prediction.decoder import Decoder as Decoder
    from molspec.prediction.model import Model as Model, load as load
    from molspec.prediction.options import PredictOptions as PredictOptions
    from molspec.prediction.results import (
        Prediction as Prediction,
        Result as Result,
        Results as Results,
    )
    from molspec.text import Vocabulary as Vocabulary
else:
    __getattr__, __dir__ = imported_when_used(__name__)
