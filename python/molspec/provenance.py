"""What decides a model's answers: its weights, its precision and how it decodes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import molspec
from molspec.options import PredictOptions
from molspec.strategy import chosen_drafter


@dataclass(frozen=True)
class Identity:
    """What decides a loaded model's answers, beside the options, and how it drafts.

    weights: the fingerprint of its checkpoint.
    decoder_bytes: of the matrices that a pass of its decoder reads.
    """

    weights: str
    device: str = "cpu"
    dtype: str = "float32"
    decoder_bytes: int = 0


def model_settings(model: str, identity: Identity) -> dict[str, Any]:
    """What decides answers beside the options, as `run_settings` has it."""
    return {
        "molspec": molspec.__version__,
        "model": model,
        "weights": identity.weights,
        "device": identity.device,
        "dtype": identity.dtype,
    }


def run_settings(model: str, identity: Identity, options: PredictOptions) -> dict[str, Any]:
    """Settings as JSON values, defaults resolved: a job resumes where they are equal.

    model: what to call the model.
    """
    values = asdict(options)
    for name in ("draft_length", "draft_count", "node_budget"):
        del values[name]
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
