"""Several spellings of a query, one list of answers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from molspec.predictor import Model
from molspec.results import Prediction, merge_duplicates
from molspec.text import Vocabulary, canonicalise, other_spellings
from tests import tiny

QUERIES = ("CC(=O)Oc1ccc2c(c1)CCN2", "CCO", "C1CC1", "N", "junk", "CCOCCOCCOC")


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(replace(tiny.checkpoint(), canonical_queries=True))


def test_answers_of_the_views_are_merged(model: Model) -> None:
    results = model.predict(QUERIES, n_best=4, max_length=20, augmentations=3)
    for query, result in zip(QUERIES, results, strict=True):
        assert result.query == query
        if query == "junk":
            assert str(result.error).startswith("not SMILES")
            continue
        asked = [query, *other_spellings(query, 2)]
        lists = model.predict(asked, n_best=4, max_length=20, canonical_queries=False)
        merged = merge_duplicates([found.predictions for found in lists])
        assert result.predictions == merged[:4]
        assert result.statistics.nodes == sum(found.statistics.nodes for found in lists)
    assert results.statistics.queries == 3 + 3 + 1 + 1 + 3


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_answers_do_not_depend_on_the_batch(model: Model, batch_size: int) -> None:
    expected = model.predict(QUERIES, n_best=3, max_length=20, augmentations=4)
    found = model.predict(QUERIES, n_best=3, max_length=20, augmentations=4, batch_size=batch_size)
    assert found == expected


def test_one_view_merges_nothing(model: Model) -> None:
    plain = model.predict(QUERIES, n_best=3, max_length=20)
    assert model.predict(QUERIES, n_best=3, max_length=20, augmentations=1) == plain
    merged = model.predict(QUERIES, n_best=3, max_length=20, augmentations=1, merge_duplicates=True)
    assert [result.predictions for result in merged] == [
        merge_duplicates([result.predictions])[:3] if result.predictions else () for result in plain
    ]


def test_views_that_cannot_be_read_are_not_asked() -> None:
    """Without the token of a branch, CCO can be read from its ends only."""
    checkpoint = tiny.checkpoint()
    tokens = tuple("F" if token == "(" else token for token in checkpoint.vocabulary.tokens)
    unbranched = Model(replace(checkpoint, vocabulary=Vocabulary(tokens), canonical_queries=True))
    assert set(other_spellings("CCO", 5)) == {"OCC", "C(C)O"}
    results = unbranched.predict(["CCO"], max_length=20, augmentations=5)
    assert results[0].error is None
    assert results.statistics.queries == 2


def test_mean_of_probabilities() -> None:
    lists = [
        [Prediction("CCO", math.log(0.5)), Prediction("OCC", math.log(0.1))],
        [Prediction("N", math.log(0.7)), Prediction("C(C)O", math.log(0.2)), Prediction("C(", -9)],
    ]
    merged = merge_duplicates(lists)
    assert [prediction.smiles for prediction in merged] == ["CCO", "N", "C("]
    probabilities = [math.exp(prediction.log_prob) for prediction in merged]
    assert probabilities == pytest.approx([0.4, 0.35, math.exp(-9) / 2])


@pytest.mark.parametrize("smiles", ["CC(=O)Oc1ccc2c(c1)CCN2", "C[C@H](N)C(=O)O.O=C(O)/C=C/Br", "C"])
def test_other_spellings(smiles: str) -> None:
    canonical = str(canonicalise(smiles))
    every = other_spellings(canonical, 100)
    assert len({canonical, *every}) == 1 + len(every)
    assert all(canonicalise(text) == canonical for text in every)
    for count in range(5):
        assert other_spellings(canonical, count) == every[:count]


def test_wrong_use_is_refused(model: Model) -> None:
    for merging in ({"augmentations": 2}, {"merge_duplicates": True}):
        with pytest.raises(ValueError, match=r"^length_penalty is 0\.5: expected 0 where answers"):
            model.predict(["C"], n_best=2, length_penalty=0.5, **merging)
    with pytest.raises(ValueError, match="augmentations is 0"):
        model.predict(["C"], augmentations=0)
    with pytest.raises(ValueError, match="augmentations is 2: expected 1 where queries are"):
        model.predict(["C"], augmentations=2, canonical_queries=False)
    with pytest.raises(ValueError, match="augmentations is 2: expected 1 where queries are"):
        tiny.model().predict(["C"], augmentations=2)
