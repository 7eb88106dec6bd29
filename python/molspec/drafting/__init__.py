"""Drafting: what a search proposes to the model. It changes the time, never an exact answer."""

from __future__ import annotations

from molspec.drafting.configurations import (
    Drafting,
    NoDraft,
    TreeDraft,
    WindowDrafts,
    build_ngram,
    factory,
    guess_model,
    resolve,
)

__all__ = [
    "Drafting",
    "NoDraft",
    "TreeDraft",
    "WindowDrafts",
    "build_ngram",
    "factory",
    "guess_model",
    "resolve",
]
