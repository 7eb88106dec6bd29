"""Samples without replacement: as drawn one after the other, whatever is drafted."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from molspec.checkpoints.folder import write
from molspec.decoding import Scheduler, Source, SourceRequest
from molspec.drafting import LookAhead, ModelDraft
from molspec.options import PredictOptions
from molspec.predictor import Model
from molspec.strategy import search_spec
from tests import tiny
from tests.search import chance, plain
from tests.test_decoder import drafting_model

QUERY = "CC(=O)O"
SHORT = tiny.QUERIES[:-1]
SEEDS = 2500
#: Few enough sequences to say what is true of every pair of them.
SMALL: dict[str, Any] = {"top_k": 3, "temperature": 1.5}
MAX_LENGTH = 2

Drawn = list[tuple[chance.Sequence_, float, float]]


@pytest.fixture(scope="module")
def model() -> Model:
    return drafting_model()


def lists(model: Model, samples: int) -> list[Drawn]:
    """What every seed gives: sequences, their log-probs and inclusion probabilities."""
    source_ids = tiny.VOCABULARY.encode(QUERY)
    source = Source(source_ids, [tiny.VOCABULARY.bos_id, *source_ids, plain.EOS])
    scheduler = Scheduler(model.engine.session(250), model.context.guess, 250)
    for seed in range(SEEDS):
        asked = PredictOptions(samples=samples, seed=seed, replacement=False, **SMALL)
        strategy = search_spec(asked, model.context, MAX_LENGTH, "cpu")
        scheduler.add(SourceRequest(source, strategy))
    return [
        [
            ((*h.token_ids, *([plain.EOS] if h.finished else [])), h.log_prob, h.inclusion)
            for h in decoded.hypotheses
        ]
        for _, decoded in scheduler.finish()
    ]


@pytest.fixture(scope="module")
def pairs(model: Model) -> list[Drawn]:
    return lists(model, 2)


@pytest.fixture(scope="module")
def true(model: Model) -> dict[chance.Sequence_, float]:
    next_log_probs = plain.model_of(model.engine, tiny.VOCABULARY.encode(QUERY))
    return chance.sequences(next_log_probs, MAX_LENGTH, SMALL["temperature"], top_k=SMALL["top_k"])


def test_the_first_is_a_sample_and_the_second_one_of_the_rest(
    pairs: list[Drawn], true: dict[chance.Sequence_, float]
) -> None:
    expected = {
        (a, b): share * true[b] / (1 - share) for a, share in true.items() for b in true if a != b
    }
    assert math.fsum(expected.values()) == pytest.approx(1)
    seen = [tuple(sequence for sequence, _, _ in drawn) for drawn in pairs]
    assert chance.chi_square(seen, expected) < 3
    # Drawn with replacement they would be others.
    swapped = {(a, b): share for (b, a), share in expected.items()}
    assert chance.chi_square(seen, swapped) > 3


def test_inclusion_is_how_often_a_sequence_is_among_the_samples(
    pairs: list[Drawn], true: dict[chance.Sequence_, float]
) -> None:
    """Horvitz and Thompson: 1 / inclusion, summed over the samples, counts each sequence once."""
    sums: Counter[chance.Sequence_] = Counter()
    squares: Counter[chance.Sequence_] = Counter()
    for drawn in pairs:
        for sequence, _, inclusion in drawn:
            assert 0 < inclusion <= 1
            sums[sequence] += true[sequence] / inclusion
            squares[sequence] += (true[sequence] / inclusion) ** 2
    assert set(sums) == set(true)
    for sequence, share in true.items():
        mean = sums[sequence] / len(pairs)
        error = math.sqrt((squares[sequence] / len(pairs) - mean**2) / len(pairs))
        assert mean == pytest.approx(share, abs=4 * error), sequence


def test_all_there_are_is_certain(model: Model, true: dict[chance.Sequence_, float]) -> None:
    options = PredictOptions(samples=len(true), replacement=False, **SMALL)
    source_ids = tiny.VOCABULARY.encode(QUERY)
    scheduler = Scheduler(model.engine.session(1), model.context.guess, 1)
    source = Source(source_ids, [tiny.VOCABULARY.bos_id, *source_ids, plain.EOS])
    scheduler.add(SourceRequest(source, search_spec(options, model.context, MAX_LENGTH, "cpu")))
    ((_, found),) = scheduler.finish()
    hypotheses = found.hypotheses
    assert len({(*h.token_ids, h.finished) for h in hypotheses}) == len(true)
    assert [h.inclusion for h in hypotheses] == [1.0] * len(true)


@pytest.mark.parametrize("temperature", [0.7, 1.3])
@pytest.mark.parametrize("batch_size", [1, 16])
def test_drafts_change_nothing(
    model: Model, tmp_path: Any, temperature: float, batch_size: int
) -> None:
    write(tiny.checkpoint(1), tmp_path / "same")
    write(tiny.checkpoint(2), tmp_path / "small")
    options: dict[str, Any] = {
        "samples": 3,
        "replacement": False,
        "temperature": temperature,
        "max_length": 25,
    }
    reference = model.predict(SHORT, drafter="none", batch_size=batch_size, **options)
    for result in reference:
        texts = [(sample.smiles, sample.finished) for sample in result.predictions]
        assert len(texts) == 3
    same = ModelDraft(str(tmp_path / "same"), gamma=6)
    for drafter in (
        "tree",
        LookAhead(node_budget=20, steps=4, min_confidence=0.0),
        ModelDraft(str(tmp_path / "small"), gamma=3),
        same,
    ):
        results = model.predict(SHORT, drafter=drafter, batch_size=batch_size, **options)
        assert results == reference, drafter
    # One that knows what the model will say looks ahead of it.
    assert results.statistics.query_calls < 0.8 * reference.statistics.query_calls


def test_samples_bear_the_models_own_log_probs(model: Model) -> None:
    results = model.predict(SHORT, samples=4, replacement=False, temperature=0.8, max_length=30)
    asked = [(r.query, p) for r in results for p in r.predictions if p.finished and p.smiles]
    own = model.log_probs([query for query, _ in asked], [p.smiles for _, p in asked])
    assert [each.predictions[0].log_prob for each in own] == [p.log_prob for _, p in asked]
    assert len(asked) > 5
