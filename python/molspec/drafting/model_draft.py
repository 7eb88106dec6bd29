"""A model that drafts for another one: which, and for how many tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, Literal

from molspec import _native, checkpoints
from molspec.decoding import Drafter
from molspec.drafting.configurations import (
    AnyDrafter,
    DrafterMaker,
    Drafting,
    LookAhead,
    OwnDraft,
    resolve,
)
from molspec.drafting.gamma import AdaptiveGamma, FixedGamma
from molspec.drafting.model_drafter import ModelDrafter
from molspec.drafting.session_drafter import Frame
from molspec.engine.devices import Engine, make_engine
from molspec.fields import check_count
from molspec.models import locate

#: Queries under way together at most.
_MOST_ROWS = 1024


@dataclass(frozen=True)
class ModelDraft:
    """A small model drafts for the target model (Leviathan et al. 2023), on the CPU.

    What it drafts is verified as all drafts are: answers stay those of the target model. Of
    samples it draws with the same noise.

    model: the name or path of a model with the vocabulary of the one that it drafts for; for
        `molspec.decode` a module as it takes them.
    gamma: tokens drafted before each verification; "adaptive" follows how many are accepted and
        what they cost.
    drafter: who drafts for the small model in its turn: "none", "tree", or a ModelDraft of a model
        that is smaller still.
    width: likeliest tokens that are proposed at each place. More than one is for exact beams, where
        it is the width of the beam if it is not given.
    dtype: of its matrices, as for `molspec.load`.

    Raises ValueError, naming the option; `open` does where the model cannot draft for the other.
    """

    model: Any
    gamma: int | Literal["adaptive"] = "adaptive"
    drafter: AnyDrafter = "none"
    width: int | None = None
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.gamma != "adaptive":
            if isinstance(self.gamma, str):
                raise ValueError(
                    f"gamma is {self.gamma!r}: expected 'adaptive' or a whole number of at least 1"
                )
            object.__setattr__(self, "gamma", check_count("gamma", self.gamma))
        if self.width is not None:
            object.__setattr__(self, "width", check_count("width", self.width))
        if isinstance(inner := resolve(self.drafter), LookAhead | OwnDraft):
            raise ValueError(f"drafter is {inner!r}: expected one that drafts after a single path")

    def open(self, guess: _native.GuessModel) -> ModelDrafter:
        """Make the drafter for the model that `guess` is of.

        Raises ValueError, naming both, where the vocabularies differ, CheckpointError where there
        is no such model.
        """
        checkpoint, engine = self._loaded
        vocabulary = checkpoint.vocabulary
        check_vocabulary(str(self.model), list(vocabulary.tokens), guess.tokens)
        return self.drafting_with(
            engine.session(_MOST_ROWS),
            guess,
            checkpoint.spec.source_frame(vocabulary.bos_id, vocabulary.eos_id),
            checkpoint.spec.max_positions,
            _MOST_ROWS,
        )

    @cached_property
    def _loaded(self) -> tuple[checkpoints.Checkpoint, Engine]:
        """What is read once for all calls that the drafter is given to."""
        if not isinstance(self.model, str | FilePath):
            kind = type(self.model).__name__
            raise ValueError(f"model is a {kind}: expected the name or the path of a model")
        try:
            path = locate(self.model)
        except ValueError as error:
            raise checkpoints.CheckpointError(str(error)) from error
        checkpoint = checkpoints.read(path)
        return checkpoint, make_engine(checkpoint.spec, checkpoint.weights, "cpu", self.dtype)

    def drafting_with(
        self,
        session: Any,
        guess: _native.GuessModel,
        frame: Frame | None,
        max_positions: int | None,
        row_count: int,
    ) -> ModelDrafter:
        """Make the drafter on a session of the model."""
        inner = resolve(self.drafter)
        if isinstance(inner, DrafterMaker):
            inner = inner.open(guess)
        assert isinstance(inner, Drafting | Drafter)
        gamma = AdaptiveGamma() if self.gamma == "adaptive" else FixedGamma(self.gamma)
        return ModelDrafter(
            session, guess, gamma, inner, frame, max_positions, row_count, self.width or 1
        )


def check_vocabulary(name: str, own: list[str], other: list[str]) -> None:
    """Raise ValueError, naming both models' tokens, where a drafter's are others."""
    if own == other:
        return
    place = next(
        (at for at, (mine, its) in enumerate(zip(own, other, strict=False)) if mine != its),
        min(len(own), len(other)),
    )
    raise ValueError(
        f"drafter {name!r} has another vocabulary than the model that it drafts for: token {place} "
        f"is {_named(own, place)} of {len(own)} there and {_named(other, place)} of {len(other)} "
        "here; expected the same tokens in the same order"
    )


def _named(tokens: list[str], place: int) -> str:
    return repr(tokens[place]) if place < len(tokens) else "none"
