"""Samples follow the model's distribution, whatever drafts are rejected."""

import math
from typing import Any

import pytest

from molspec import _native
from molspec.decoding import Scheduler, Source
from molspec.decoding.scheduler import source_request
from molspec.drafting import ModelDraft
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import Prediction, Results
from tests import tiny
from tests.drafting.drafters import Silent
from tests.search import chance, plain

QUERY = "CC(=O)O"
SHORT = tiny.QUERIES[:-1]
SEEDS, SAMPLES, MAX_LENGTH = 4, 1000, 3
#: Upper limit of a statistic with these seeds, in standard deviations.
LIMIT = 3.0
VOCAB = tiny.VOCABULARY.size
REJECTION: dict[str, Any] = {"verification": "rejection"}


#: Drafters of the laws: those of molspec, a model that often differs, a chain of three models.
NAMES = ("none", "windows", "tree", "small", "adaptive", "model and tree", "hierarchy", "spec")


def draw_samples(model: Model, count: int = SAMPLES, **options: Any) -> list[chance.Sequence_]:
    """Samples of all seeds, as token ids."""
    source_ids = tiny.VOCABULARY.encode(QUERY)
    source = Source(source_ids, [tiny.VOCABULARY.bos_id, *source_ids, plain.EOS])
    scheduler = Scheduler(model.engine.session(SEEDS), model.context.guess, SEEDS)
    for seed in range(SEEDS):
        drawn = PredictOptions(samples=count, seed=seed, max_length=MAX_LENGTH, **options)
        strategy = model.decode_config(drawn).strategy(model.context)
        scheduler.add(source_request(source, strategy))
    results = [decoded for _, decoded in sorted(scheduler.finish())]
    assert len(results) == SEEDS
    return [
        (*sample.token_ids, *([plain.EOS] if sample.finished else []))
        for decoded in results
        for sample in decoded.hypotheses
    ]


def probabilities_of(
    model: Model, temperature: float, **filters: Any
) -> dict[chance.Sequence_, float]:
    next_log_probs = plain.model_of(model.engine, tiny.VOCABULARY.encode(QUERY))
    return chance.sequences(next_log_probs, MAX_LENGTH, temperature, **filters)


@pytest.mark.parametrize("verification", ["strict", "rejection"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    "filters", [{}, {"top_k": 3}, {"top_p": 0.95}, {"top_k": 6, "top_p": 0.98}], ids=str
)
def test_samples_follow_the_model_distribution(
    model: Model,
    drafters: dict[str, Any],
    temperature: float,
    filters: dict[str, Any],
    verification: Any,
) -> None:
    options = {"temperature": temperature, **filters}
    rule = {} if verification == "strict" else {"drafter": drafters["small"](), **REJECTION}
    samples = draw_samples(model, **rule, **options)
    assert chance.chi_square(samples, probabilities_of(model, **options)) < LIMIT
    other = probabilities_of(model, **{**options, "temperature": 1.25 * temperature})
    assert chance.chi_square(samples, other) > LIMIT  # another temperature is detected


@pytest.fixture(scope="module")
def reference(model: Model) -> Results:
    return model.predict(SHORT, drafter="none", batch_size=1, **OPTIONS)


OPTIONS: dict[str, Any] = {"samples": 5, "temperature": 0.9, "seed": 7, "max_length": 30}


def test_most_drafts_of_the_same_model_are_accepted(
    model: Model, drafters: dict[str, Any], reference: Results
) -> None:
    same = ModelDraft(drafters["same"]().model, gamma=4)
    results = model.predict(SHORT, drafter=same, **OPTIONS)
    assert results == reference
    statistics = results.statistics
    # All but the drafts after an end by max_length or EOS are accepted.
    assert statistics.accepted_per_emitted > 0.7


def test_more_samples_begin_with_the_same_ones(model: Model, reference: Results) -> None:
    more = model.predict(SHORT, **{**OPTIONS, "samples": 9})
    assert [each.predictions[:5] for each in more] == [each.predictions for each in reference]
    others = model.predict(SHORT, **{**OPTIONS, "seed": 8})
    assert sum(a != b for a, b in zip(others, reference, strict=True)) > len(SHORT) // 2


def test_top_k_of_one_equals_greedy_decoding(model: Model) -> None:
    greedy = model.predict(SHORT, max_length=30)
    samples = model.predict(SHORT, samples=2, top_k=1, max_length=30)
    for best, result in zip(greedy, samples, strict=True):
        assert result.predictions == best.predictions * 2


def test_equal_samples_are_merged_and_counted(model: Model) -> None:
    options: dict[str, Any] = {**OPTIONS, "samples": 40, "max_length": 4, "temperature": 0.4}
    one_by_one = model.predict(SHORT, **options)
    merged_ones = model.predict(SHORT, merge_duplicates=True, **options)
    for result, merged_result in zip(one_by_one, merged_ones, strict=True):

        def key(sample: Prediction) -> object:
            return sample.canonical or (sample.smiles, sample.finished)

        keys = [key(sample) for sample in result.predictions]
        counts = [each.count for each in merged_result.predictions]
        assert sum(counts) == 40
        assert counts == sorted(counts, reverse=True)
        for each in merged_result.predictions:
            assert each.count == keys.count(key(each))
            spellings = {s.smiles: s.log_prob for s in result.predictions if key(s) == key(each)}
            merged_log_prob = math.log(math.fsum(map(math.exp, spellings.values())))
            assert each.log_prob == pytest.approx(merged_log_prob, abs=1e-12)


class Siblings(Silent):
    """Drafts every token after a path; most of them are rejected."""

    def propose(self, paths: Any) -> list[_native.DraftTree]:
        ids = range(4, VOCAB)
        return [_native.DraftTree([*ids], [-1] * len(ids), [-2.0] * len(ids)) for _ in paths]


@pytest.mark.parametrize("name", [*NAMES, "siblings"])
def test_rejected_samples_of_every_drafter_follow_the_model_distribution(
    model: Model, drafters: dict[str, Any], name: str
) -> None:
    options: dict[str, Any] = {"temperature": 1.2, "top_k": 5}
    drafter = Siblings() if name == "siblings" else drafters[name]()
    count = SAMPLES if name == "siblings" else 500
    samples = draw_samples(model, count, drafter=drafter, **REJECTION, **options)
    assert chance.chi_square(samples, probabilities_of(model, **options)) < LIMIT


@pytest.mark.parametrize("name", ["tree", "small", "hierarchy"])
def test_rejected_samples_depend_on_the_drafter(
    model: Model, drafters: dict[str, Any], name: str
) -> None:
    options: dict[str, Any] = {"samples": 5, "max_length": 30, "seed": 3, **REJECTION}
    options["drafter"] = drafters[name]()
    expected = model.predict(SHORT, batch_size=1, **options)
    assert 0 < expected.statistics.accepted_tokens < expected.statistics.drafted_tokens
    assert model.predict(SHORT, **{**options, "drafter": "none"}) != expected


def test_drafts_from_the_distribution_of_the_model_are_accepted(
    model: Model, drafters: dict[str, Any]
) -> None:
    same = ModelDraft(drafters["same"]().model, gamma=1)
    options: dict[str, Any] = {"samples": 50, "max_length": 9, "top_k": 4, **REJECTION}
    results = model.predict([QUERY], drafter=same, **options)
    tokens = [tiny.VOCABULARY.encode(p.smiles) for p in results[0].predictions]
    # Only ends are rejected, because EOS is never drafted.
    ends = sum(prediction.finished for prediction in results[0].predictions)
    statistics = results.statistics
    assert statistics.accepted_tokens >= statistics.drafted_tokens - ends
    assert statistics.accepted_tokens > sum(map(len, tokens)) // 4
