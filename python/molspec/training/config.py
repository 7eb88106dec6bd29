"""What a training is: sizes, budget, optimiser. From a JSON file or from code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from math import isfinite
from types import NoneType
from typing import Any, Literal, get_args, get_type_hints

from molspec.model.spec import ModelSpec

Precision = Literal["bfloat16", "float32"]
OptimizerName = Literal["muon", "adamw"]
#: What the learning rate does after the warm-up.
ScheduleName = Literal["linear", "constant", "cooldown"]

#: Fields of ModelSpec that the data decide.
_DATA_FIELDS = ("source_vocab_size", "target_vocab_size")
_POSITIVE = (
    *("minutes", "steps", "batch_tokens", "learning_rate", "gradient_norm"),
    *("validate_every", "validation_pairs", "decoded_pairs", "patience"),
)
_SHARES = ("dropout", "warm_up", "label_smoothing", "averaging")


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides the outcome of a training, but data and machine.

    Exactly one of `minutes` and `steps` is the budget; the schedule is fitted to it. Raises
    ValueError, naming the field, where a value makes no sense.
    """

    #: Wall-clock minutes, those of interrupted parts counted, pauses between them not.
    minutes: float | None = None
    #: Optimiser steps: the same configuration and data give the same weights, to the bit on a CPU.
    steps: int | None = None
    #: Fields of ModelSpec that differ from its defaults; the vocabulary sizes come from the data.
    model: Mapping[str, Any] = field(default_factory=dict)
    dropout: float = 0.1
    #: Padded tokens of a batch, source and target together, of all processes together.
    batch_tokens: int = 8192
    optimizer: OptimizerName = "muon"
    learning_rate: float = 1e-3
    #: Share of the budget in which the learning rate rises linearly.
    warm_up: float = 0.04
    #: Then: "linear": it falls linearly to 0 at the end of the budget. "constant": it stays, and
    #: `cooldown` makes a model of the training at any time. "cooldown": it falls to 0 as 1 - sqrt
    #: of the budget used (Hägele et al. 2024).
    schedule: ScheduleName = "linear"
    weight_decay: float = 0.01
    #: Longest gradient: longer ones are shortened to it.
    gradient_norm: float = 1.0
    label_smoothing: float = 0.0
    #: "bfloat16" multiplies matrices in bfloat16 and keeps weights in float32.
    precision: Precision = "bfloat16"
    #: Weights are averaged exponentially over about 1 / (1 - averaging) last steps; 0: the last.
    averaging: float = 0.998
    #: Steps between validations, and validation pairs used at most.
    validate_every: int = 1000
    validation_pairs: int = 1000
    #: Validation pairs that are decoded for top-1, where there is a decoder.
    decoded_pairs: int = 200
    #: Stop after so many validations without a better token accuracy; None: never.
    patience: int | None = None
    #: Minutes between saved states, beside one at each validation: what a kill costs at most.
    save_minutes: float = 5.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            _check_kind(name, getattr(self, name), kind)
        if (self.minutes is None) == (self.steps is None):
            raise ValueError(
                f"minutes is {self.minutes} and steps is {self.steps}: "
                "expected exactly one of them, the budget"
            )
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value}: expected more than 0")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}: expected at least 0")
        for name in _SHARES:
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}: expected at least 0, below 1")
        for name in ("weight_decay", "save_minutes"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} is {getattr(self, name)}: expected at least 0")
        for name, known in (
            *(("precision", Precision), ("optimizer", OptimizerName)),
            ("schedule", ScheduleName),
        ):
            if getattr(self, name) not in get_args(known):
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}: expected {' or '.join(get_args(known))}"
                )
        if decided := [name for name in _DATA_FIELDS if name in self.model]:
            raise ValueError(f"model has {', '.join(decided)}: the data decide that")
        self.spec(4)  # so that wrong sizes are found now

    def spec(self, vocab_size: int) -> ModelSpec:
        """Describe the model to train."""
        return ModelSpec.from_json({**self.model, **dict.fromkeys(_DATA_FIELDS, vocab_size)})

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainConfig:
        """Build the configuration from JSON values; unknown fields are errors."""
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(values) - set(known)):
            raise ValueError(
                f"unknown training fields: {', '.join(unknown)}; known: {', '.join(known)}"
            )
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Every field, as JSON values."""
        return asdict(self)


def _check_kind(name: str, value: object, kind: Any) -> None:
    """Raise ValueError where a number is of another kind, or endless."""
    kinds = get_args(kind) or (kind,)
    if value is None and NoneType in kinds:
        return
    for number, words in ((float, "a number"), (int, "a whole number")):
        if number in kinds:
            accepted = (int, float) if number is float else int
            if isinstance(value, bool) or not isinstance(value, accepted) or not isfinite(value):
                raise ValueError(f"{name} is {value!r}: expected {words}")
    if name == "model" and not isinstance(value, Mapping):
        raise ValueError(f"{name} is {value!r}: expected fields of ModelSpec")
