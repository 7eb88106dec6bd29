"""Somebody's own modules as drafters: each gets a session, as the model that is decoded has one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from molspec._native import GuessModel
from molspec.drafting import ModelDraft
from molspec.drafting.model_drafter import ModelDrafter
from molspec.engine.session import Session
from molspec.options import PredictOptions

#: Gives a session on a model, and the number of its target's ids.
Opened = Callable[[Any], tuple[Session, int]]


def with_models(
    options: PredictOptions, guess: GuessModel, vocab_size: int, opened: Opened
) -> PredictOptions:
    """Options whose drafter, where it is a module, is ready to draft for one decode loop.

    Raises ValueError where a drafter's target has another number of ids.
    """
    draft = options.drafter
    if not isinstance(draft, ModelDraft):
        return options
    if draft.width is None and not (options.is_greedy or options.samples is not None):
        draft = replace(draft, width=options.width)
    return replace(options, drafter=_ready(draft, guess, vocab_size, opened, options.batch_size))


def _ready(
    draft: ModelDraft, guess: GuessModel, vocab_size: int, opened: Opened, row_count: int
) -> ModelDraft | ModelDrafter:
    if isinstance(draft.drafter, ModelDraft):
        inner = _ready(draft.drafter, guess, vocab_size, opened, row_count)
        draft = replace(draft, drafter=inner)
    if isinstance(draft.model, str | Path):
        return draft
    session, own_size = opened(draft.model)
    if own_size != vocab_size:
        raise ValueError(
            f"the drafter, a {type(draft.model).__name__}, has {own_size} target ids: expected "
            f"{vocab_size}, as the model that it drafts for"
        )
    longest = getattr(session, "max_positions", None)
    return draft.drafting_with(session, guess, None, longest, row_count)
