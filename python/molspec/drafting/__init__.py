"""Drafting: what a search proposes to the model. It changes the time, never an exact answer."""

from __future__ import annotations

from molspec.decoding import Drafter, DraftTree, Path
from molspec.drafting.configurations import (
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
    check_count,
    check_number,
    resolve,
)
from molspec.drafting.merging import merged, opened
from molspec.drafting.model_draft import ModelDraft
from molspec.drafting.ngram import build_ngram, guess_model
from molspec.drafting.own import OwnDrafters, bound
from molspec.drafting.simulation import DraftStatistics, simulate
from molspec.drafting.spec import SpecModel

__all__ = [
    "AnyConfiguration",
    "AnyDrafter",
    "DraftStatistics",
    "DraftTree",
    "Drafter",
    "DrafterMaker",
    "Drafting",
    "HeadsDraft",
    "LookAhead",
    "ModelDraft",
    "NoDraft",
    "OwnDraft",
    "OwnDrafters",
    "Path",
    "SpecDraft",
    "SpecModel",
    "TreeDraft",
    "WindowDrafts",
    "bound",
    "build_ngram",
    "check_count",
    "check_number",
    "guess_model",
    "merged",
    "opened",
    "resolve",
    "simulate",
]
