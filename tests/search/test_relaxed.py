"""Relaxed verification accepts only tokens that the rule allows, and answers count them."""

import math
from typing import Any

import pytest

from molspec.decoding import DraftTree
from molspec.drafting import TreeDraft
from molspec.prediction.model import Model
from tests import tiny
from tests.search import plain

SHORT = tiny.QUERIES[:-1]
EOS = tiny.VOCABULARY.eos_id
RELAXED: dict[str, Any] = {"verification": "relaxed", "max_length": 30}
PUBLISHED: list[dict[str, Any]] = [{}, {"beta": 5, "tau": 3.0}, {"beta": 2, "tau": 6.0}]


@pytest.fixture
def small(drafters: dict[str, Any]) -> Any:
    return drafters["small"]()


def token_rows(
    model: Model, query: str, answer: str, finished: bool
) -> list[tuple[int, list[float]]]:
    """The tokens of an answer, each with the model's log-probs at its position."""
    tokens = tiny.VOCABULARY.encode(answer) + [EOS] * finished
    next_log_probs = plain.model_of(model.engine, tiny.VOCABULARY.encode(query))
    bos = tiny.VOCABULARY.bos_id
    return [(token, list(next_log_probs([bos, *tokens[:i]]))) for i, token in enumerate(tokens)]


@pytest.mark.parametrize("limits", PUBLISHED, ids=str)
@pytest.mark.parametrize("batch_size", [1, 16])
def test_rule_allows_every_token_of_an_answer(
    model: Model, small: Any, limits: dict[str, Any], batch_size: int
) -> None:
    beta, tau = limits.get("beta", 3), limits.get("tau", 1.0)
    tolerated = 0
    for drafter in (small, "spec", TreeDraft(node_budget=8)):
        results = model.predict(SHORT, drafter=drafter, batch_size=batch_size, **RELAXED, **limits)
        for result in results:
            (answer,) = result.predictions
            other_count = 0
            total = 0.0
            for token, row in token_rows(model, result.query, answer.smiles, answer.finished):
                best = sorted(row, reverse=True)
                total += row[token]
                if row[token] == best[0]:
                    continue
                other_count += 1
                assert row[token] >= best[beta - 1]
                assert best[0] - row[token] <= tau
            assert answer.tolerated == other_count
            assert answer.log_prob == pytest.approx(total, abs=1e-4)
            tolerated += other_count
    assert tolerated > 0  # the rule was applied


def test_zero_tolerance_equals_strict_verification(model: Model, small: Any) -> None:
    strict = model.predict(SHORT, max_length=30)
    for limits in ({"beta": 1}, {"tau": 0.0}):
        results = model.predict(SHORT, drafter=small, **RELAXED, **limits)
        for result, strict_result in zip(results, strict, strict=True):
            (answer,), (expected,) = result.predictions, strict_result.predictions
            assert (answer.smiles, answer.log_prob) == (expected.smiles, expected.log_prob)
            assert answer.tolerated == 0
            assert expected.tolerated is None


class Scripted:
    """Drafts the second likeliest token, with a given log-prob."""

    def __init__(self, model: Model, log_prob: float) -> None:
        self._model, self._log_prob = model, log_prob
        self._next_log_probs: dict[int, Any] = {}

    def start(self, row: int, source_ids: Any) -> None:
        self._next_log_probs[row] = plain.model_of(self._model.engine, list(source_ids))

    def release(self, row: int) -> None:
        del self._next_log_probs[row]

    def propose(self, paths: Any) -> list[DraftTree]:
        trees = []
        for path in paths:
            row = list(self._next_log_probs[path.row]([tiny.VOCABULARY.bos_id, *path.token_ids]))
            ranked = sorted(range(len(row)), key=lambda token: -row[token])
            usable = [token for token in ranked[1:] if token >= 4]
            trees.append(DraftTree(usable[:1], [-1], [self._log_prob]))
        return trees


def test_judge_decides_which_drafts_are_accepted(model: Model) -> None:
    # The drafts are never the model's best token. The drafter rates them certain or improbable.
    for log_prob, judge, accepted in (
        *((math.log(1e-9), "model", True), (math.log(1e-9), "drafter", False)),
        (0.0, "drafter", True),
    ):
        results = model.predict(
            ["CC(=O)O"], drafter=Scripted(model, log_prob), judge=judge, beta=9, tau=15.0, **RELAXED
        )
        assert ((results[0].predictions[0].tolerated or 0) > 0) == accepted
