"""The target model's data from which drafters are built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molspec import _native, checkpoints
from molspec.checkpoints.bundled import locate
from molspec.decoding import Drafter
from molspec.drafting.merging import Merged, NativeParts
from molspec.drafting.options import (
    AnyConfiguration,
    DrafterMaker,
    Drafting,
    HeadsDraft,
    LookAhead,
    OwnDraft,
    SpecDraft,
)
from molspec.drafting.spec_drafter import SpecModel
from molspec.engine.session import Session
from molspec.model.heads import DraftHeads
from molspec.text.vocabulary import difference


@dataclass(frozen=True)
class DraftContext:
    """The target model's data from which a drafter is built.

    guess: the model's n-gram model and the roles of its tokens.
    tokens: of its vocabulary, if they are known.
    heads, spec: the model's own drafters.
    model: its fingerprint.
    dtype: of draft models.
    width: of the beam.
    query_count: maximum queries in progress together.
    decoder_bytes: of the weights that a decoder pass reads.
    open_module: opens a session on a draft model of `molspec.decode`; also gives the positions of
        its longest source, if they are limited.
    """

    guess: _native.GuessModel
    tokens: Sequence[str] | None = None
    heads: DraftHeads | None = None
    spec: SpecModel | None = None
    model: str = ""
    dtype: str = "float32"
    decoder_bytes: int = 0
    width: int = 1
    query_count: int = 1024
    open_module: Callable[[Any], tuple[Session, int | None]] | None = None

    def build(self, drafter: AnyConfiguration) -> Drafter:
        """Build a drafter for the model. Raises ValueError like `check` and its `build`."""
        if isinstance(drafter, Drafting):
            return NativeParts(drafter, self.guess)
        if isinstance(drafter, DrafterMaker):
            return drafter.build(self)
        assert isinstance(drafter, Drafter)
        return drafter

    def parts(self, drafter: AnyConfiguration) -> tuple[_native.DrafterOptions, Drafter | None]:
        """Options of a native search's own drafter, and the external drafter, if any."""
        if isinstance(drafter, Drafting):
            return drafter.native(), None
        return _native.ExternalOptions(), self.build(drafter)

    def check(self, drafter: AnyConfiguration | None) -> None:
        """Raise ValueError for a drafter that the model lacks, or that is another model's."""
        if isinstance(drafter, Merged):
            for part in drafter.parts:
                self.check(part)
        elif isinstance(drafter, LookAhead):
            self.check(drafter.drafter)
        elif isinstance(drafter, HeadsDraft):
            self.own_heads(drafter)
        elif isinstance(drafter, SpecDraft):
            self.own_spec(drafter)

    def own_heads(self, draft: HeadsDraft) -> DraftHeads:
        """The model's draft heads. Raises ValueError if it has none."""
        return self.heads or _missing(draft)

    def own_spec(self, draft: SpecDraft) -> SpecModel:
        """The model's Spec-Drafter, or the one in a folder of the same model.

        Raises ValueError if there is none, and for that of another model.
        """
        if draft.model is None:
            return self.spec or _missing(draft)
        vocabulary = draft.checkpoint.vocabulary
        self.check_vocabulary(str(draft.model), vocabulary.tokens)
        if draft.target != self.model:
            raise ValueError(
                f"drafter {str(draft.model)!r} is of the model {draft.target}: expected one of "
                f"{self.model or 'a model of molspec.load'}"
            )
        if self.dtype not in draft.opened:
            found = draft.checkpoint.spec_drafter or _missing(draft)
            draft.opened[self.dtype] = SpecModel(found, vocabulary, self.dtype)
        return draft.opened[self.dtype]

    def check_vocabulary(self, name: str, own: Sequence[str]) -> None:
        """Raise ValueError, naming both models' tokens, if the drafter's differ."""
        if self.tokens is None:
            raise ValueError(
                f"tokens is None: expected the target's tokens, to compare with those of {name!r}"
            )
        if (found := difference(own, self.tokens)) is not None:
            raise ValueError(
                f"drafter {name!r} has another vocabulary than the model that it drafts for: "
                f"{found}; expected the same tokens in the same order"
            )


def _missing(draft: OwnDraft) -> Any:
    raise ValueError(
        f"drafter is {draft.name!r}: the model has no {draft.needs}; "
        f"`molspec {draft.command}` trains one"
    )


def read_drafter(model: str | Path) -> checkpoints.Checkpoint:
    """Read a draft model. Raises CheckpointError if there is none."""
    try:
        return checkpoints.read(locate(model))
    except ValueError as error:
        raise checkpoints.CheckpointError(str(error)) from error
