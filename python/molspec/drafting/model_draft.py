"""A model that drafts for another one: which, and for how many tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, Literal

from molspec import checkpoints
from molspec.drafting.configurations import AnyDrafter, Drafting, LookAhead, OwnDraft, resolve
from molspec.drafting.context import DraftContext, check_vocabulary, read_drafter
from molspec.drafting.gamma import AdaptiveGamma, FixedGamma
from molspec.drafting.model_drafter import ModelDrafter
from molspec.drafting.session_drafter import MOST_ROWS, Frame
from molspec.engine.devices import Engine, make_engine
from molspec.fields import check_count


@dataclass(frozen=True)
class ModelDraft:
    """A small model drafts for the target model (Leviathan et al. 2023), on the CPU.

    What it drafts is verified as all drafts are: answers stay those of the target model. Of
    samples it draws with the same noise.

    model: the name or path of a model with the vocabulary of the one that it drafts for; for
        `molspec.decode` a module as it takes them.
    gamma: tokens drafted before each verification; "adaptive" follows how many are accepted and
        what they cost.
    drafter: what drafts for the small model itself: "none", "tree", or a ModelDraft of a model
        that is smaller still.
    width: likeliest tokens that are proposed at each place. More than one is for exact beams, where
        it is the width of the beam if it is not given.
    dtype: of its matrices, as for `molspec.load`.

    Raises ValueError, naming the option; `build` does where the model cannot draft for the other.
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

    def build(self, context: DraftContext) -> ModelDrafter:
        """Build the drafter.

        Raises ValueError, naming both, where the vocabularies differ, CheckpointError where there
        is no such model.
        """
        frame: Frame | None = None
        if context.open_module is not None and not isinstance(self.model, str | FilePath):
            session = context.open_module(self.model)
            longest = getattr(session, "max_positions", None)
        else:
            checkpoint, engine = self._loaded
            vocabulary = checkpoint.vocabulary
            check_vocabulary(str(self.model), list(vocabulary.tokens), context.guess.tokens)
            session = engine.session(MOST_ROWS)
            frame = checkpoint.spec.source_frame(vocabulary.bos_id, vocabulary.eos_id)
            longest = checkpoint.spec.max_positions
        inner = resolve(self.drafter)
        if not isinstance(inner, Drafting):
            inner = replace(context, width=1).build(inner)
        gamma = AdaptiveGamma() if self.gamma == "adaptive" else FixedGamma(self.gamma)
        width = self.width or context.width
        return ModelDrafter(session, context.guess, gamma, inner, frame, longest, width)

    @cached_property
    def _loaded(self) -> tuple[checkpoints.Checkpoint, Engine]:
        """What is read once for all calls that the drafter is given to."""
        if not isinstance(self.model, str | FilePath):
            kind = type(self.model).__name__
            raise ValueError(f"model is a {kind}: expected the name or the path of a model")
        checkpoint = read_drafter(self.model)
        return checkpoint, make_engine(checkpoint.spec, checkpoint.weights, "cpu", self.dtype)
