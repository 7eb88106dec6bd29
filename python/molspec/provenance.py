"""The settings that decide a model's answers: weights, precision and decoding."""

from __future__ import annotations

from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import molspec
from molspec.options import PredictOptions
from molspec.strategy import chosen_drafter


@dataclass(frozen=True)
class Identity:
    """Everything beside the options that decides a loaded model's answers and drafts.

    weights: the fingerprint of its checkpoint.
    decoder_bytes: of the matrices that a decoder pass reads.
    """

    weights: str
    device: str = "cpu"
    dtype: str = "float32"
    decoder_bytes: int = 0


def model_settings(model: str, identity: Identity) -> dict[str, Any]:
    """The part of `run_settings` that is not the options."""
    return {
        "molspec": molspec.__version__,
        "model": model,
        "weights": identity.weights,
        "device": identity.device,
        "dtype": identity.dtype,
    }


def run_settings(model: str, identity: Identity, options: PredictOptions) -> dict[str, Any]:
    """Settings as JSON values, with resolved defaults: a job resumes if they are equal.

    model: the model's name.
    """
    replaced = ("draft_length", "draft_count", "node_budget")
    values = {name: value for name, value in vars(options).items() if name not in replaced}
    drafter = chosen_drafter(options, identity.device, identity.decoder_bytes)
    return {
        **model_settings(model, identity),
        **values,
        "beam": options.search,
        "beam_size": options.width,
        "drafter": {
            "kind": type(drafter).__name__,
            **(asdict(drafter) if is_dataclass(drafter) else {}),
        },
    }
