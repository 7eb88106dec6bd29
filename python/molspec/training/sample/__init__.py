"""Two thousand real reactions, and a model small enough to learn from them in minutes."""

from pathlib import Path
from typing import Any

from molspec.training.config import PrepareOptions

#: Reactions of USPTO-50K; README.md beside it describes them.
FILE = Path(__file__).parent / "uspto50k.tsv.xz"

OPTIONS = PrepareOptions("retro", variants=5)

#: Fields of TrainConfig.
CONFIG: dict[str, Any] = {
    "minutes": 4.0,
    "model": {
        "d_model": 128,
        "head_count": 4,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "feed_forward": 256,
        "max_positions": 256,
    },
    "dropout": 0.0,
    "batch_tokens": 2048,
    "learning_rate": 2e-3,
    "validate_every": 500,
    "validation_pairs": 100,
    "decoded_pairs": 50,
    "save_minutes": 1.0,
}
