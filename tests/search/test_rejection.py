"""Rejection sampling: samples follow the model's distribution with every drafter."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from molspec import _native
from molspec.drafting import ModelDraft
from molspec.prediction.model import Model
from tests import tiny
from tests.search import chance
from tests.search.test_sampling import (
    LIMIT,
    NAMES,
    QUERY,
    SHORT,
    drafters,
    draw_samples,
    model,
    probabilities_of,
)

__all__ = ["drafters", "model"]  # fixtures

REJECTION: dict[str, Any] = {"verification": "rejection"}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    "filters", [{}, {"top_k": 3}, {"top_p": 0.95}, {"top_k": 6, "top_p": 0.98}], ids=str
)
def test_samples_follow_the_model_distribution(
    model: Model, drafters: dict[str, Any], temperature: float, filters: dict[str, Any]
) -> None:
    options = {"temperature": temperature, **filters}
    samples = draw_samples(model, drafter=drafters["small model"], **REJECTION, **options)
    assert chance.chi_square(samples, probabilities_of(model, **options)) < LIMIT
    other = probabilities_of(model, **{**options, "temperature": 1.25 * temperature})
    assert chance.chi_square(samples, other) > LIMIT  # another temperature is detected


@pytest.mark.parametrize("name", NAMES)
def test_samples_of_every_drafter_follow_the_model_distribution(
    model: Model, drafters: dict[str, Any], name: str
) -> None:
    options: dict[str, Any] = {"temperature": 1.2, "top_k": 5}
    samples = draw_samples(model, drafter=drafters[name], **REJECTION, **options)
    assert chance.chi_square(samples, probabilities_of(model, **options)) < LIMIT


@pytest.mark.parametrize("name", ["tree", "small model", "hierarchy"])
def test_samples_depend_on_the_drafter_but_not_on_the_batch(
    model: Model, drafters: dict[str, Any], name: str
) -> None:
    options: dict[str, Any] = {"samples": 5, "max_length": 30, "seed": 3, **REJECTION}
    options["drafter"] = drafters[name]
    expected = model.predict(SHORT, batch_size=1, **options)
    assert model.predict(SHORT, batch_size=16, **options) == expected
    assert 0 < expected.statistics.accepted_tokens < expected.statistics.drafted_tokens
    assert model.predict(SHORT, **{**options, "drafter": "none"}) != expected


def test_drafts_from_the_distribution_of_the_model_are_accepted(
    model: Model, drafters: dict[str, Any]
) -> None:
    same = ModelDraft(drafters["adaptive"].model, gamma=1)
    options: dict[str, Any] = {"samples": 50, "max_length": 9, "top_k": 4, **REJECTION}
    results = model.predict([QUERY], drafter=same, **options)
    tokens = [tiny.VOCABULARY.encode(p.smiles) for p in results[0].predictions]
    # Only ends are rejected, because EOS is never drafted.
    ends = sum(prediction.finished for prediction in results[0].predictions)
    statistics = results.statistics
    assert statistics.accepted_tokens >= statistics.drafted_tokens - ends
    assert statistics.accepted_tokens > sum(map(len, tokens)) // 4


VOCAB = tiny.VOCABULARY.size
C = tiny.VOCABULARY.encode("C")[0]


def chain(rows: np.ndarray[Any, Any], parents: tuple[int, ...] = (-1, 0)) -> _native.DraftTree:
    return _native.DraftTree([C] * 2, parents, [-1.0, -2.0], rows)


def one_hot(token_id: int = C) -> np.ndarray[Any, Any]:
    rows = np.zeros((2, VOCAB))
    rows[:, token_id] = 1
    return rows


def test_a_tree_without_nodes_has_no_distributions() -> None:
    assert _native.DraftTree(drawn_from=np.ones(VOCAB)).drawn_from is None


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (chain(one_hot()[:1]), rf"drawn_from has {VOCAB} entries: expected \[2, {VOCAB}\]"),
        (chain(one_hot(), (-1, -1)), r"parents\[1\] is -1: expected 0, a chain"),
        (chain(one_hot() / 2), r"drawn_from\[0\] is 0.5: expected a sum of 1"),
        (chain(-one_hot()), r"drawn_from\[0\] is -1: expected a probability"),
        (chain(one_hot(tiny.VOCABULARY.eos_id)), r"drawn_from\[0\] is 1: .* 0 of BOS, EOS"),
    ],
)
def test_proposed_distributions_are_checked(
    model: Model, tree: _native.DraftTree, message: str
) -> None:
    class Own:
        def start(self, row: int, source_ids: object) -> None: ...
        def release(self, row: int) -> None: ...
        def propose(self, paths: Any) -> list[_native.DraftTree]:
            return [tree] * len(paths)

    (result,) = model.predict([QUERY], samples=2, drafter=Own(), **REJECTION)
    assert re.search(f"drafter Own failed in propose: .* a proposed tree's {message}", str(result))


def test_invalid_options_are_refused(model: Model) -> None:
    for options in ({}, {"n_best": 3}, {"samples": 3, "replacement": False}):
        with pytest.raises(ValueError, match=r"^verification is 'rejection'"):
            model.predict([QUERY], **options, **REJECTION)
    with pytest.raises(ValueError, match=r"^verification is 'other'"):
        model.predict([QUERY], verification="other")  # type: ignore[arg-type]
