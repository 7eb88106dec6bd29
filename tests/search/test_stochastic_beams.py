"""Samples without replacement have the distribution of sequential draws, with every drafter."""

import math
from collections import Counter
from typing import Any

import pytest

from molspec.checkpoints.folder import write
from molspec.decoding import Scheduler, Source, SourceRequest
from molspec.drafting import LookAhead, ModelDraft
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from tests import tiny
from tests.search import chance, plain

QUERY = "CC(=O)O"
SHORT = tiny.QUERIES[:-1]
SEEDS = 2500
#: Options that leave few enough sequences to compute the probability of every pair.
SMALL: dict[str, Any] = {"top_k": 3, "temperature": 1.5}
MAX_LENGTH = 2

Drawn = list[tuple[chance.Sequence_, float, float]]


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny.drafting_model()


def draw_lists(model: Model, samples: int) -> list[Drawn]:
    """The samples of every seed: sequences, log-probs and inclusion probabilities."""
    source_ids = tiny.VOCABULARY.encode(QUERY)
    source = Source(source_ids, [tiny.VOCABULARY.bos_id, *source_ids, plain.EOS])
    scheduler = Scheduler(model.engine.session(250), model.context.guess, 250)
    for seed in range(SEEDS):
        options = PredictOptions(
            samples=samples, seed=seed, replacement=False, max_length=MAX_LENGTH, **SMALL
        )
        strategy = model.decode_config(options).strategy(model.context)
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
    return draw_lists(model, 2)


@pytest.fixture(scope="module")
def probabilities(model: Model) -> dict[chance.Sequence_, float]:
    next_log_probs = plain.model_of(model.engine, tiny.VOCABULARY.encode(QUERY))
    return chance.sequences(next_log_probs, MAX_LENGTH, SMALL["temperature"], top_k=SMALL["top_k"])


def test_second_sample_is_drawn_from_the_remaining_sequences(
    pairs: list[Drawn], probabilities: dict[chance.Sequence_, float]
) -> None:
    expected = {
        (a, b): share * probabilities[b] / (1 - share)
        for a, share in probabilities.items()
        for b in probabilities
        if a != b
    }
    assert math.fsum(expected.values()) == pytest.approx(1)
    seen = [tuple(sequence for sequence, _, _ in drawn) for drawn in pairs]
    assert chance.chi_square(seen, expected) < 3
    # The test detects pairs in the other order.
    swapped = {(a, b): share for (b, a), share in expected.items()}
    assert chance.chi_square(seen, swapped) > 3


def test_weights_of_inverse_inclusion_give_unbiased_estimates(
    pairs: list[Drawn], probabilities: dict[chance.Sequence_, float]
) -> None:
    """Horvitz and Thompson: the mean sum of 1 / inclusion counts each sequence once."""
    sums: Counter[chance.Sequence_] = Counter()
    squares: Counter[chance.Sequence_] = Counter()
    for drawn in pairs:
        for sequence, _, inclusion in drawn:
            assert 0 < inclusion <= 1
            sums[sequence] += probabilities[sequence] / inclusion
            squares[sequence] += (probabilities[sequence] / inclusion) ** 2
    assert set(sums) == set(probabilities)
    for sequence, share in probabilities.items():
        mean = sums[sequence] / len(pairs)
        error = math.sqrt((squares[sequence] / len(pairs) - mean**2) / len(pairs))
        assert mean == pytest.approx(share, abs=4 * error), sequence


def test_inclusion_is_one_if_all_sequences_are_drawn(
    model: Model, probabilities: dict[chance.Sequence_, float]
) -> None:
    options = PredictOptions(
        samples=len(probabilities), replacement=False, max_length=MAX_LENGTH, **SMALL
    )
    source_ids = tiny.VOCABULARY.encode(QUERY)
    scheduler = Scheduler(model.engine.session(1), model.context.guess, 1)
    source = Source(source_ids, [tiny.VOCABULARY.bos_id, *source_ids, plain.EOS])
    strategy = model.decode_config(options).strategy(model.context)
    scheduler.add(SourceRequest(source, strategy))
    ((_, decoded),) = scheduler.finish()
    hypotheses = decoded.hypotheses
    assert len({(*h.token_ids, h.finished) for h in hypotheses}) == len(probabilities)
    assert [h.inclusion for h in hypotheses] == [1.0] * len(probabilities)


@pytest.mark.parametrize("temperature", [0.7, 1.3])
@pytest.mark.parametrize("batch_size", [1, 16])
def test_drafters_change_no_samples(
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
    # The last drafter, of the same model, saves calls.
    assert results.statistics.query_calls < 0.8 * reference.statistics.query_calls


def test_samples_have_the_log_probs_of_the_model(model: Model) -> None:
    results = model.predict(SHORT, samples=4, replacement=False, temperature=0.8, max_length=30)
    finished = [(r.query, p) for r in results for p in r.predictions if p.finished and p.smiles]
    own = model.log_probs([query for query, _ in finished], [p.smiles for _, p in finished])
    assert [each.predictions[0].log_prob for each in own] == [p.log_prob for _, p in finished]
    assert len(finished) > 5
