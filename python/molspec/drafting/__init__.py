"""Drafting: what a search proposes to the model. It changes the time, never an exact answer."""

from __future__ import annotations

from molspec.decoding import Drafter, DraftTree, Path
from molspec.drafting.configurations import (
    AnyDrafter,
    DrafterMaker,
    Drafting,
    LookAhead,
    NoDraft,
    TreeDraft,
    WindowDrafts,
    check_count,
    check_number,
    resolve,
)
from molspec.drafting.merging import merged
from molspec.drafting.model_draft import ModelDraft
from molspec.drafting.ngram import build_ngram, guess_model
from molspec.drafting.simulation import DraftStatistics, simulate

__all__ = [
    "AnyDrafter",
    "DraftStatistics",
    "DraftTree",
    "Drafter",
    "DrafterMaker",
    "Drafting",
    "LookAhead",
    "ModelDraft",
    "NoDraft",
    "Path",
    "TreeDraft",
    "WindowDrafts",
    "build_ngram",
    "check_count",
    "check_number",
    "guess_model",
    "merged",
    "resolve",
    "simulate",
]
