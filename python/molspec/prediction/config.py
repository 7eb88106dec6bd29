"""Options resolved for one model: what is searched and drafted, and the settings that decide it."""

from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import molspec
from molspec.decoding import Strategy
from molspec.drafting import AnyConfiguration, DraftContext, Drafting, OwnDraft
from molspec.prediction.options import DRAFT_COUNTS, PredictOptions, changed
from molspec.prediction.strategy import SearchPlan, chosen_drafter, search_plan


class Identity(NamedTuple):
    """Everything beside the options that decides a loaded model's answers and drafts.

    weights: the fingerprint of its checkpoint.
    device: None for PyTorch modules.
    decoder_bytes: of the matrices that a decoder pass reads.
    """

    weights: str
    device: str | None = "cpu"
    dtype: str = "float32"
    decoder_bytes: int = 0


@dataclass(frozen=True)
class DecodeConfig:
    """`PredictOptions` resolved for one model; `Model.decode_config` makes it.

    Equal ones decode alike. It can be hashed and pickled if its drafter can.

    canonical_queries, max_length: of the options, or the model's own.
    """

    options: PredictOptions
    identity: Identity
    canonical_queries: bool
    max_length: int

    @property
    def drafter(self) -> AnyConfiguration:
        """The requested drafter, or the cheapest for this model and batch size."""
        return chosen_drafter(self.options, self.identity.device, self.identity.decoder_bytes)

    def plan(self, batch_size: int, factor: int = 1) -> SearchPlan:
        """The search for batches of a size, with the beam's width times `factor`."""
        # Another drafter may hold much memory, or have no hash.
        named = isinstance(self.options.drafter, str | None)
        planned = _planned if named else _planned.__wrapped__
        return planned(self.options, self.identity, self.max_length, batch_size, factor)

    def strategy(self, context: DraftContext) -> Strategy:
        """The search for the options' batch size, with a drafter of its own."""
        batch_size = self.options.batch_size
        plan = self.plan(batch_size)
        return Strategy(plan.search, plan.build(context, batch_size))

    @property
    def is_told(self) -> bool:
        """Whether `answer_settings` name all that decides answers: any object may draft."""
        known = isinstance(self.options.drafter, str | Drafting | OwnDraft | None)
        return known or not self.options.drafts_decide

    def settings(self, model: str) -> dict[str, Any]:
        """Settings of answers and costs as JSON values, with resolved defaults.

        An evaluation resumes if they are equal. model: the model's name.
        """
        # The drafter comes after the batch size, on which it may depend.
        return {**self._settings(model), "drafter": _described(self.drafter)}

    def answer_settings(self, model: str) -> dict[str, Any]:
        """The part of `settings` that decides answers: a job of predictions resumes by it."""
        if self.options.drafts_decide:
            return self.settings(model)
        settings = self._settings(model)
        del settings["batch_size"]
        return settings

    def _settings(self, model: str) -> dict[str, Any]:
        values = {
            each.name: getattr(self.options, each.name)
            for each in fields(self.options)
            if each.name not in ("drafter", *DRAFT_COUNTS)
        }
        return {
            **model_settings(model, self.identity),
            **values,
            "canonical_queries": self.canonical_queries,
            "beam": self.options.search,
            "beam_size": self.options.width,
        }


@lru_cache(256)
def _planned(
    options: PredictOptions, identity: Identity, max_length: int, batch_size: int, factor: int
) -> SearchPlan:
    """The only store between options and a search. Native settings have no state."""
    options = changed(options, batch_size=batch_size).searched(factor)
    drafter = chosen_drafter(options, identity.device, identity.decoder_bytes)
    return search_plan(options, drafter, max_length)


#: Options, as given or resolved.
AnyOptions = PredictOptions | DecodeConfig


def model_settings(model: str, identity: Identity) -> dict[str, Any]:
    """The part of `DecodeConfig.settings` that is not the options."""
    return {
        "molspec": molspec.__version__,
        "model": model,
        "weights": identity.weights,
        "device": identity.device,
        "dtype": identity.dtype,
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
