"""Drafting: what a search proposes to the model. It changes the time, never an exact answer."""

from __future__ import annotations

from molspec.drafting.configurations import (
    Drafting,
    NoDraft,
    TreeDraft,
    WindowDrafts,
    check_count,
    check_number,
    factory,
    resolve,
)
from molspec.drafting.ngram import build_ngram, guess_model
from molspec.drafting.simulation import DraftStatistics, simulate

__all__ = [
    "DraftStatistics",
    "Drafting",
    "NoDraft",
    "TreeDraft",
    "WindowDrafts",
    "build_ngram",
    "check_count",
    "check_number",
    "factory",
    "guess_model",
    "resolve",
    "simulate",
]
