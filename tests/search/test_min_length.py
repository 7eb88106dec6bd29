"""min_length: the searches of a model that cannot end before."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from molspec._native import BeamSpec
from molspec.drafting import LookAhead
from molspec.prediction.model import Model
from tests import tiny
from tests.search import plain
from tests.search.plain import answers, decode, model_with_ties, plain_answers

SHORT = tiny.QUERIES[:-1]
MIN_LENGTH, MAX_LENGTH = 9, 14


def without_end(next_log_probs: plain.NextLogProbs, min_length: int) -> plain.NextLogProbs:
    """The same model, which gives EOS no probability before."""

    def changed(prefix: Sequence[int]) -> list[float]:
        row = list(next_log_probs(prefix))
        if len(prefix) < min_length:  # BOS is counted as EOS would be
            row[plain.EOS] = -math.inf
        return row

    return changed


@pytest.fixture(scope="module", params=["one", "ensemble"])
def model(request: pytest.FixtureRequest) -> Model:
    return Model(tiny.checkpoint(), others=tiny.others() if request.param == "ensemble" else ())


@pytest.mark.parametrize(
    "options",
    [
        {"drafter": "none"},
        {"drafter": "tree"},
        {"n_best": 4, "beam": "standard"},
        {"n_best": 4, "drafter": LookAhead(node_budget=40, steps=5, min_confidence=0.0)},
        {"n_best": 4, "beam": "sbs", "drafter": "none"},
    ],
    ids=str,
)
def test_searches_equal_those_of_a_model_that_cannot_end_before(
    model: Model, options: dict[str, Any]
) -> None:
    found = model.predict(SHORT, min_length=MIN_LENGTH, max_length=MAX_LENGTH, **options)
    free = model.predict(SHORT, max_length=MAX_LENGTH, **options)
    for query, result in zip(SHORT, found, strict=True):
        changed = without_end(
            plain.model_of(model.engine, tiny.VOCABULARY.encode(query)), MIN_LENGTH
        )
        n_best = options.get("n_best", 1)
        expected = (
            [plain.greedy(changed, MAX_LENGTH)]
            if n_best == 1
            else plain.beam_search(changed, n_best, MAX_LENGTH)
        )
        assert answers(result) == plain_answers(expected)
        assert all(len(h.token_ids) + h.finished >= MIN_LENGTH for h in expected)
    assert [answers(result) for result in found] != [answers(result) for result in free]


@pytest.mark.parametrize("options", [{}, {"verification": "rejection"}])
def test_samples_do_not_end_before(model: Model, options: dict[str, Any]) -> None:
    for result in model.predict(SHORT, samples=8, min_length=6, max_length=8, **options):
        assert len(result.predictions) == 8
        for sample in result.predictions:
            assert len(tiny.VOCABULARY.encode(sample.smiles)) + sample.finished >= 6


def test_a_beam_of_more_places_than_tokens_lists_no_impossible_answer() -> None:
    spec = BeamSpec(beam_size=30, n_best=30, max_length=2, min_length=2, finished_apart=True)
    hypotheses = decode(spec, model_with_ties(1))
    assert hypotheses
    assert all(math.isfinite(each.log_prob) and len(each.token_ids) >= 1 for each in hypotheses)
