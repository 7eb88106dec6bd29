"""Drafting: guesses that the model verifies. They change the time, never an exact answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from molspec.drafting.options import (
    AnyConfiguration,
    AnyDrafter,
    DrafterMaker,
    Drafting,
    HeadsDraft,
    LookAhead,
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
    from molspec.drafting.draft_model import ModelDraft
    from molspec.drafting.merging import merged
    from molspec.drafting.ngram import build_ngram, guess_model
    from molspec.drafting.simulation import simulate
    from molspec.drafting.spec_drafter import SpecModel

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
    "SpecModel",
    "TreeDraft",
    "WindowDrafts",
    "build_ngram",
    "guess_model",
    "merged",
    "resolve",
    "simulate",
]

#: Names whose modules need torch.
_HOMES = {
    **dict.fromkeys(("Drafter", "DrafterError", "DraftTree", "Path"), "molspec.decoding"),
    "DraftContext": "molspec.drafting.build",
    "merged": "molspec.drafting.merging",
    "ModelDraft": "molspec.drafting.draft_model",
    **dict.fromkeys(("build_ngram", "guess_model"), "molspec.drafting.ngram"),
    "simulate": "molspec.drafting.simulation",
    "SpecModel": "molspec.drafting.spec_drafter",
}


def __getattr__(name: str) -> Any:
    """Import torch only for names that need it: options and the command line's help do not."""
    if name not in _HOMES:
        raise AttributeError(f"module 'molspec.drafting' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
