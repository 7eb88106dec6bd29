"""Drafting: guesses that the model verifies. They change the time, never an exact answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from molspec.common.lazy import imported_when_used
from molspec.drafting.options import (
    AnyConfiguration,
    AnyDrafter,
    DrafterMaker,
    Drafting,
    HeadsDraft,
    LookAhead,
    ModelDraft,
    NoDraft,
    OwnDraft,
    SpecDraft,
    TreeDraft,
    WindowDrafts,
    resolve,
)

if TYPE_CHECKING:
    from molspec.decoding import Drafter, DrafterError, DraftTree, Path
    from molspec.drafting.build import DraftContext
    from molspec.drafting.native import native_options, simulate
    from molspec.drafting.ngram import build_ngram, guess_model
    from molspec.drafting.spec_drafter import SpecDrafterModel

__all__ = [
    "AnyConfiguration",
    "AnyDrafter",
    "DraftContext",
    "DraftTree",
    "Drafter",
    "DrafterError",
    "DrafterMaker",
    "Drafting",
    "HeadsDraft",
    "LookAhead",
    "ModelDraft",
    "NoDraft",
    "OwnDraft",
    "Path",
    "SpecDraft",
    "SpecDrafterModel",
    "TreeDraft",
    "WindowDrafts",
    "build_ngram",
    "guess_model",
    "native_options",
    "resolve",
    "simulate",
]

#: Names whose modules need torch.
_NAMES = {
    "molspec.decoding": ("DraftTree", "Drafter", "DrafterError", "Path"),
    "molspec.drafting.build": ("DraftContext",),
    "molspec.drafting.native": ("native_options", "simulate"),
    "molspec.drafting.ngram": ("build_ngram", "guess_model"),
    "molspec.drafting.spec_drafter": ("SpecDrafterModel",),
}

__getattr__ = imported_when_used(__name__, _NAMES)
