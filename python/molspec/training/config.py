"""Settings of preparing data and of training models, draft heads and Spec-Drafters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import partial
from typing import Any, Literal

from molspec.common.fields import check_fields, setting, wrong
from molspec.common.task import Task
from molspec.common.workers import MOST
from molspec.model.spec import MOST_PLACES, HeadsSpec, ModelSpec

Precision = Literal["bfloat16", "float32"]
OptimizerName = Literal["muon", "adamw"]

#: Fields of ModelSpec that the data decide.
_DATA_FIELDS = ("source_vocab_size", "target_vocab_size")
_SHARES = ("dropout", "warm_up", "label_smoothing", "averaging")
_MODEL = "Model"
#: The settings of each group.
_of_budget, _of_model, _of_steps, _of_validation = (
    partial(setting, group=group) for group in ("Budget", _MODEL, "Optimiser steps", "Validation")
)


@dataclass(frozen=True)
class PrepareOptions:
    """Options of making training pairs from reactions.

    Raises ValueError, naming the option, if a value is invalid.
    """

    task: Task = setting(
        MISSING,
        "retro: product -> reactants; product: the reverse.",
        more="retro leaves out molecules that give no atom to the product; the sources of product "
        "have reagents too.",
    )
    variants: int | None = setting(
        None,
        "SMILES of each reaction; 20 for retro, 1 for product.",
        more="The canonical one comes first; a validation reaction has that one.",
    )
    reaction_column: str | None = setting(None, "Column of reaction SMILES; found if not given.")
    validation_share: float = setting(
        0.05, "Share of the products set aside if no validation files are given.", above=0
    )
    max_tokens: int = setting(400, "Maximum tokens of a source or target.")
    min_token_count: int = setting(
        1, "Drop pairs with rarer tokens.", more="Only if the vocabulary is made from the pairs."
    )
    seed: int = setting(0, "Seed of the random variants.", least=0)
    workers: int = setting(
        1,
        "Processes, and threads of the judge.",
        most=MOST,
        more="The output does not depend on them.",
    )
    max_nats: float | None = setting(
        None, "Drop reactions that the judge finds less probable than exp(-this).", above=0
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.validation_share < 1.0:
            raise wrong("validation_share", self.validation_share, "more than 0, less than 1")


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    """The settings of an optimiser step in any training: of a model, of heads, of a Spec-Drafter.

    Raises ValueError, naming the field, if a value is invalid.
    """

    batch_tokens: int = _of_steps(
        8192,
        "Padded tokens of a batch, of all processes.",
        more="Source and target tokens together.",
    )
    learning_rate: float = _of_steps(1e-3, "Peak of the learning rate.", above=0)
    warm_up: float = _of_steps(
        0.04,
        "Share of the budget in which the learning rate rises linearly.",
        more="Then it falls linearly, to 0 at the end of the budget.",
    )
    optimizer: OptimizerName = _of_steps(
        "muon", "muon or adamw, for the layers' matrices; other weights use AdamW."
    )
    weight_decay: float = _of_steps(0.01, "Weight decay of matrices.")
    gradient_norm: float = _of_steps(
        1.0, "Maximum norm of the gradient; longer ones are shortened to it.", above=0
    )
    precision: Precision = _of_steps(
        "bfloat16", "Matrix products in `bfloat16` or `float32`; weights are float32."
    )
    seed: int = _of_steps(0, "Seed of weights, order and dropout.", least=0, most=2**64 - 1)

    def __post_init__(self) -> None:
        check_fields(self)
        for name in _SHARES:
            value = getattr(self, name, 0.0)
            if not 0.0 <= value < 1.0:
                raise wrong(name, value, "at least 0, below 1")


@dataclass(frozen=True, kw_only=True)
class TrainConfig(StepConfig):
    """All settings that decide the outcome of a training, beside data and machine.

    Exactly one of `minutes` and `steps` is the budget; the schedule is fitted to it.
    """

    minutes: float | None = _of_budget(
        None,
        "Budget: minutes.",
        more="Wall-clock time of all parts of an interrupted training, without the pauses.",
        above=0,
    )
    steps: int | None = _of_budget(
        None,
        "Budget: steps.",
        more="The same configuration and data give the same weights: on a CPU to the bit, with the "
        "same number of threads.",
    )
    patience: int | None = _of_budget(
        None, "Stop after this many validations without better token accuracy.", more="None: never."
    )
    save_minutes: float = _of_budget(
        5.0,
        "Minutes between saved states.",
        more="A state is also saved at each validation, and at SIGTERM or Ctrl-C.",
    )
    model: Mapping[str, Any] = field(
        default_factory=dict,
        metadata={
            "help": "Fields of `ModelSpec` that differ from its defaults, in a JSON file.",
            "more": "The data decide the sizes of vocabularies.",
            "group": _MODEL,
        },
    )
    dropout: float = _of_model(0.1, "Dropout probability.")
    averaging: float = _of_model(
        0.998,
        "Weights are averaged over about the last 1 / (1 - averaging) steps.",
        more="An exponential average; 0 takes the last weights.",
    )
    label_smoothing: float = _of_steps(0.0, "Label smoothing of the loss.")
    exit_layers: int = _of_steps(
        0, "Also train the first decoder layers to answer alone; 0: no.", least=0
    )
    exit_share: float = _of_steps(0.1, "Weight of their loss beside the whole model's.", above=0)
    validate_every: int = _of_validation(1000, "Steps between validations.")
    validation_pairs: int = _of_validation(
        1000, "Maximum validation pairs for loss and token accuracy."
    )
    decoded_pairs: int = _of_validation(200, "Maximum validation pairs decoded for top-1.", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.minutes is None) == (self.steps is None):
            raise ValueError(
                f"minutes is {self.minutes} and steps is {self.steps}: "
                "expected exactly one of them, the budget"
            )
        if not isinstance(self.model, Mapping):
            raise ValueError(f"model is {self.model!r}: expected fields of ModelSpec")
        if decided := [name for name in _DATA_FIELDS if name in self.model]:
            raise ValueError(f"model has {', '.join(decided)}: the data decide that")
        self.spec(2**20)  # finds wrong sizes now

    def spec(self, vocab_size: int) -> ModelSpec:
        """Describe the model to train."""
        return ModelSpec.from_json({**self.model, **dict.fromkeys(_DATA_FIELDS, vocab_size)})

    def answering(self, spec: ModelSpec) -> list[int]:
        """After how many decoder layers a model answers. Raises ValueError if it has too few."""
        early = [self.exit_layers] if self.exit_layers else []
        cuts = [spec.first_layers(count, "exit_layers") for count in early]
        return [each.decoder_layers for each in (*cuts, spec)]

    def share_used(self, steps: int, seconds: float) -> float:
        """Share of the budget that so many steps, or seconds, are."""
        if self.steps is not None:
            return steps / self.steps
        assert self.minutes is not None
        return seconds / (60 * self.minutes)

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


@dataclass(frozen=True, kw_only=True)
class DrafterConfig(StepConfig):
    """The settings that decide a drafter's weights, beside model, data and the drafter's form."""

    steps: int = _of_budget(2000, "Optimiser steps.")
    batch_tokens: int = _of_steps(4096, "Padded tokens of a batch.")
    learning_rate: float = _of_steps(2e-3, "Peak of the learning rate.", above=0)
    optimizer: OptimizerName = _of_steps("adamw", "muon or adamw.")
    precision: Precision = _of_steps("float32", "bfloat16 or float32.")


@dataclass(frozen=True, kw_only=True)
class HeadsConfig(DrafterConfig):
    """The settings that decide the weights of draft heads, beside model and data."""

    optimizer: Literal["adamw"] = _of_steps("adamw", "adamw, the only one for heads.")
    heads: HeadsSpec = field(default_factory=HeadsSpec)
    joint: bool = _of_model(
        False,
        "Train the model too, on the data's targets; its answers change.",
        more="By its own next tokens (Stern et al. 2018).",
    )


@dataclass(frozen=True, kw_only=True)
class SpecDrafterConfig(DrafterConfig):
    """The settings that decide the weights of a Spec-Drafter, beside model and data.

    It begins with the model's weights wherever names and shapes agree.
    """

    steps: int = _of_budget(5000, "Optimiser steps.")
    learning_rate: float = _of_steps(1e-3, "Peak of the learning rate.", above=0)
    k: int = _of_model(25, "Tokens guessed at once.", most=MOST_PLACES)
    encoder_layers: int = _of_model(3, "Layers of its encoder.")
    decoder_layers: int = _of_model(1, "Layers of its decoder.")
    width: int | None = _of_model(None, "d_model; the model's own if not given.")
    prefixes: int = _of_steps(3, "Prefixes of each answer in a batch.")
    glancing: float = _of_steps(
        0.5,
        "Share of mistakes revealed at first.",
        more="The truth is shown there (Qian et al. 2021); the share falls to 0.",
        most=1,
    )
    published: bool = _of_model(
        False,
        "Train the published form, to compare with; no engine runs it.",
        more="Prefix and MASKs see each other, so there is no cache.",
    )
