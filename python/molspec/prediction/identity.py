"""The settings that decide a model's answers: weights, precision and decoding."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import molspec
from molspec.drafting import Drafting, HeadsDraft
from molspec.prediction.options import DRAFT_COUNTS, PredictOptions
from molspec.prediction.strategy import chosen_drafter


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
    """Settings of answers and costs as JSON values, with resolved defaults.

    An evaluation resumes if they are equal. model: the model's name.
    """
    # The drafter comes after the batch size, on which it may depend.
    replaced = ("drafter", *DRAFT_COUNTS)
    values = {name: value for name, value in vars(options).items() if name not in replaced}
    drafter = chosen_drafter(options, identity.device, identity.decoder_bytes)
    return {
        **model_settings(model, identity),
        **values,
        "beam": options.search,
        "beam_size": options.width,
        "drafter": _described(drafter),
    }


def _described(value: Any) -> Any:
    """A drafter or one of its options as a JSON value; of other objects the kind."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple):
        return [_described(each) for each in value]
    if isinstance(value, Path):
        return str(value)
    options = fields(value) if is_dataclass(value) and not isinstance(value, type) else ()
    described = {each.name: _described(getattr(value, each.name)) for each in options}
    return {"kind": type(value).__name__, **described}


def answer_settings(model: str, identity: Identity, options: PredictOptions) -> dict[str, Any]:
    """The part of `run_settings` that decides answers: a job of predictions resumes by it."""
    decisive = deciding(options) or options
    settings = run_settings(model, identity, decisive)
    if decisive is not options:
        del settings["batch_size"], settings["drafter"]
    return settings


def deciding(options: PredictOptions) -> PredictOptions | None:
    """The part of the options that decides answers; None if a drafter of any kind is part of it."""
    if options.verification == "strict" and options.search != "sbs":
        unset: dict[str, Any] = dict.fromkeys(("drafter", *DRAFT_COUNTS))
        return replace(options, batch_size=1, **unset)
    return options if isinstance(options.drafter, str | Drafting | HeadsDraft | None) else None
