"""Drafters that a model's checkpoint carries: draft heads and a Spec-Drafter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from molspec import _native, checkpoints
from molspec.decoding import Drafter
from molspec.drafting.configurations import (
    AnyConfiguration,
    HeadsDraft,
    LookAhead,
    SpecDraft,
    TreeDraft,
)
from molspec.drafting.heads import HeadsDrafter
from molspec.drafting.merging import Merged, MergedDrafter, NativeParts
from molspec.drafting.model_draft import check_vocabulary
from molspec.drafting.spec import SpecModel
from molspec.model.heads import DraftHeads
from molspec.models import locate
from molspec.text import Vocabulary

_Own = TypeVar("_Own")


@dataclass(frozen=True)
class OwnDrafters:
    """What drafts for a model and no other, where there is such. `model` is its fingerprint."""

    model: str
    vocabulary: Vocabulary
    dtype: str
    heads: DraftHeads | None
    spec: SpecModel | None


@dataclass(frozen=True)
class Bound:
    """A configuration with what makes the drafter that it is for."""

    configuration: HeadsDraft | SpecDraft
    make: Callable[[_native.GuessModel], Drafter]

    def open(self, guess: _native.GuessModel) -> Drafter:
        """Make the drafter; with the copying tree one that merges both."""
        own, configured = self.make(guess), self.configuration
        if not configured.tree:
            return own
        tree = TreeDraft(configured.node_budget, min_probability=configured.min_probability)
        return MergedDrafter([NativeParts(tree, guess), own], configured.node_budget)


def bound(drafter: AnyConfiguration, own: OwnDrafters) -> AnyConfiguration:
    """A drafter with what the model carries, where it drafts with such.

    Raises ValueError where it does and the model has none, and for that of another model.
    """
    if isinstance(drafter, HeadsDraft):
        heads = _there(drafter, own.heads)
        return Bound(drafter, lambda guess: HeadsDrafter(drafter, heads, guess))
    if isinstance(drafter, SpecDraft):
        carried = own.spec if drafter.model is None else _others(drafter.model, own)
        spec = _there(drafter, carried)
        return Bound(drafter, lambda guess: spec.open(drafter, guess))
    if isinstance(drafter, Merged):
        return replace(drafter, parts=tuple(bound(part, own) for part in drafter.parts))
    if isinstance(drafter, LookAhead) and drafter.drafter is not None:
        return replace(drafter, drafter=bound(drafter.drafter, own))
    return drafter


def _there(drafter: HeadsDraft | SpecDraft, carried: _Own | None) -> _Own:
    if carried is None:
        raise ValueError(
            f"drafter is {drafter.name!r}: the model has no {drafter.needs}; "
            f"`molspec {drafter.command}` trains one"
        )
    return carried


def _others(model: str | Path, own: OwnDrafters) -> SpecModel | None:
    """What a folder carries, which must be of the same model."""
    try:
        folder = locate(model)
    except ValueError as error:
        raise checkpoints.CheckpointError(str(error)) from error
    other = checkpoints.read(folder)
    check_vocabulary(str(model), list(other.vocabulary.tokens), list(own.vocabulary.tokens))
    if (its := other.fingerprint(with_drafters=False)) != own.model:
        raise ValueError(
            f"drafter {str(model)!r} is of the model {its}: expected one of {own.model}, which is "
            "configured"
        )
    found = other.spec_drafter
    return None if found is None else SpecModel(found, other.vocabulary, own.dtype)
