"""Answers of several spellings of a query, merged into one list."""

import math
from dataclasses import replace
from typing import Any

import pytest

from molspec import Decoder, PredictOptions
from molspec.prediction.model import Model
from molspec.prediction.results import Prediction, Result, count_duplicates, merge_duplicates
from molspec.text import Vocabulary, canonicalise, other_spellings
from tests import tiny

#: A probability that some first answers reach, some never, and some only with more spellings.
BELOW = 0.1
QUERIES = ("CC(=O)Oc1ccc2c(c1)CCN2", "CCO", "C1CC1", "N", "junk", "CCOCCOCCOC")


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(replace(tiny.checkpoint(), canonical_queries=True))


def test_answers_of_spellings_are_merged(model: Model) -> None:
    results = model.predict(QUERIES, n_best=4, max_length=20, augmentations=3)
    for query, result in zip(QUERIES, results, strict=True):
        assert result.query == query
        if query == "junk":
            assert str(result.error).startswith("not SMILES")
            continue
        spellings = [query, *other_spellings(query, 2)]
        lists = model.predict(spellings, n_best=4, max_length=20, canonical_queries=False)
        merged = merge_duplicates([found.predictions for found in lists])
        assert result.predictions == merged[:4]
        assert result.statistics.nodes == sum(found.statistics.nodes for found in lists)
    assert results.statistics.queries == 3 + 3 + 1 + 1 + 3


def test_answers_of_one_spelling_are_merged_only_on_request(model: Model) -> None:
    plain = model.predict(QUERIES, n_best=3, max_length=20)
    assert model.predict(QUERIES, n_best=3, max_length=20, augmentations=1) == plain
    merged = model.predict(QUERIES, n_best=3, max_length=20, augmentations=1, merge_duplicates=True)
    assert [result.predictions for result in merged] == [
        merge_duplicates([result.predictions])[:3] if result.predictions else () for result in plain
    ]


def adaptive(model: Model, query: str, most: int, below: float, **options: Any) -> Result:
    """The answers of the fewest spellings whose first one is so probable, or of all spellings."""
    for count in range(1, most + 1):
        (found,) = model.predict([query], augmentations=count, merge_duplicates=True, **options)
        if found.predictions and math.exp(found.predictions[0].log_prob) >= below:
            break
    return found


def test_spellings_are_added_while_the_first_answer_is_improbable(model: Model) -> None:
    options = {"n_best": 4, "max_length": 20}
    found = model.predict(QUERIES, augmentations=4, augment_below=BELOW, **options)
    nodes = 0
    for query, result in zip(QUERIES, found, strict=True):
        expected = adaptive(model, query, 4, BELOW, **options)
        assert result == expected
        assert (result.statistics.nodes, result.statistics.decoder_calls) == (
            expected.statistics.nodes,
            expected.statistics.decoder_calls,
        )
        nodes += expected.statistics.nodes
    assert found.statistics.nodes == nodes
    every = model.predict(QUERIES, augmentations=4, **options)
    one = model.predict(QUERIES, merge_duplicates=True, **options)
    assert one.statistics.queries < found.statistics.queries < every.statistics.queries
    for below, same in ((1, every), (1e-300, one)):
        extreme = model.predict(QUERIES, augmentations=4, augment_below=below, **options)
        assert extreme == same
        assert extreme.statistics.nodes == same.statistics.nodes


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("n_best", [1, 3])
def test_answers_come_from_the_narrowest_beam_with_enough_of_them(n_best: int, most: int) -> None:
    """A wider one begins with the canonical spelling."""
    model = Model(replace(tiny.checkpoint(8), canonical_queries=True))
    common = {"max_length": 12, "drop_invalid": True, "drop_unchanged": True, "drafter": "none"}
    more: dict[str, Any] = {"augmentations": most, "augment_below": BELOW} if most > 1 else {}
    wide = {**common, **more, "merge_duplicates": True, "max_beam_factor": 8}
    factors, used_more = set(), set()
    for query, result in zip(QUERIES, model.predict(QUERIES, n_best, **wide), strict=True):
        if query != "junk":
            nodes = 0
            for factor in (1, 2, 4, 8):
                options = {**common, "n_best": n_best * factor, "max_beam_factor": 1}
                expected = adaptive(model, query, most, BELOW, **options)
                nodes += expected.statistics.nodes
                if len(expected.predictions) >= n_best:
                    break
            assert result.predictions == expected.predictions[:n_best]
            assert result.statistics.nodes == nodes
            factors.add(factor)
            (one,) = model.predict([query], merge_duplicates=True, **options)
            used_more.add(expected.statistics.nodes > one.statistics.nodes)
    assert len(factors) > 1
    assert used_more == {False, most > 1}


def test_adaptive_spellings_can_be_cancelled(model: Model) -> None:
    """A request is cancelled at each step: of the first spelling, of a later one, between them."""
    options = PredictOptions(3, max_length=20, augmentations=3, augment_below=1)
    (expected,) = model.predict_stream(["CCO"], options)
    for steps in range(1, 100):
        decoder = Decoder(model, 1)
        first, second = (decoder.submit("CCO", options) for _ in range(2))
        if any(decoder.step() for _ in range(steps)):
            break
        decoder.cancel(first)
        assert dict(decoder.finish()) == {second: expected}
        assert not decoder._rows
    assert steps > 10


def test_unreadable_spellings_are_not_decoded() -> None:
    """Without the token of a branch, the model can read CCO from its ends only."""
    checkpoint = tiny.checkpoint()
    tokens = tuple("F" if token == "(" else token for token in checkpoint.vocabulary.tokens)
    unbranched = Model(replace(checkpoint, vocabulary=Vocabulary(tokens), canonical_queries=True))
    assert set(other_spellings("CCO", 5)) == {"OCC", "C(C)O"}
    results = unbranched.predict(["CCO"], max_length=20, augmentations=5)
    assert results[0].error is None
    assert results.statistics.queries == 2


def test_merged_probabilities_are_means() -> None:
    lists = [
        [Prediction("CCO", math.log(0.5)), Prediction("OCC", math.log(0.1))],
        [Prediction("N", math.log(0.7)), Prediction("C(C)O", math.log(0.2)), Prediction("C(", -9)],
    ]
    merged = merge_duplicates(lists)
    assert [prediction.smiles for prediction in merged] == ["CCO", "N", "C("]
    probabilities = [math.exp(prediction.log_prob) for prediction in merged]
    assert probabilities == pytest.approx([0.4, 0.35, math.exp(-9) / 2])


def test_merged_answers_are_the_likeliest_spelling_with_the_probability_of_all() -> None:
    spellings = [
        Prediction(
            "OCC", -2.0, tolerated=1, token_log_probs=(-1.5, -0.5), log_prob_after_prefix=-1.5
        ),
        Prediction(
            "CCO", -1.0, tolerated=2, token_log_probs=(-0.25, -0.75), log_prob_after_prefix=-0.5
        ),
    ]
    total = math.log(math.exp(-1.0) + math.exp(-2.0))
    for merged in (merge_duplicates([spellings])[0], count_duplicates(spellings)[0]):
        assert merged.smiles == "CCO"
        assert merged.log_prob == pytest.approx(total)
        assert merged.log_prob_after_prefix == pytest.approx(total + 0.5)
    (merged,) = merge_duplicates([spellings])
    assert (merged.tolerated, merged.token_log_probs) == (2, (-0.25, -0.75))
    assert merge_duplicates([spellings[:1]]) == tuple(spellings[:1])


@pytest.mark.parametrize("smiles", ["CC(=O)Oc1ccc2c(c1)CCN2", "C[C@H](N)C(=O)O.O=C(O)/C=C/Br", "C"])
def test_other_spellings_are_distinct_and_of_the_same_molecule(smiles: str) -> None:
    canonical = str(canonicalise(smiles))
    every = other_spellings(canonical, 100)
    assert len({canonical, *every}) == 1 + len(every)
    assert all(canonicalise(text) == canonical for text in every)
    for count in range(5):
        assert other_spellings(canonical, count) == every[:count]
