"""Spellings of a target that are aligned with a query."""

import pytest

from molspec import load
from molspec.text import aligned_spellings, canonicalise
from tests import tiny


def test_all_spellings_of_one_molecule_are_returned() -> None:
    assert aligned_spellings("C", "OCC") == ["CCO", "C(C)O", "OCC"]
    assert aligned_spellings("CCO", "junk") == []


def test_molecules_follow_the_order_of_the_query() -> None:
    query = "CC(=O)Nc1ccccc1"
    spellings = aligned_spellings(query, "Nc1ccccc1.CC(=O)Cl")
    assert spellings[0] == "CC(=O)Cl.Nc1ccccc1"
    assert len(spellings) == len(set(spellings)) <= 64
    assert {canonicalise(text) for text in spellings} == {spellings[0]}
    assert "CC(=O)Cl.c1ccccc1N" in spellings
    three = aligned_spellings(query, "Nc1ccccc1.CC(=O)Cl.OCCN")
    assert len(three) == 64  # of each molecule four spellings, as 4**3 is 64
    other = aligned_spellings("c1(NC(C)=O)ccccc1", spellings[0])
    assert other[1] == "c1(N)ccccc1.C(C)(=O)Cl"


@pytest.mark.parametrize(
    "query",
    [
        "CC(=O)Nc1ccccc1",
        "CCCCCCOc1ccc(C(=O)Nc2ccccc2Oc2cccc(OC(C)c3nnn[nH]3)c2)cc1",
        "CC(C)(C)[C@@H](CS(C)(=O)=O)Nc1nc(-c2c[nH]c3ncc(F)cc23)ncc1F",
    ],
)
def test_aligned_log_prob_equals_that_of_the_prediction(query: str) -> None:
    """The canonical form of a prediction gets the prediction's log-prob, to the bit."""
    retro = load("retro")
    (result,) = retro.predict([query])
    (prediction,) = result.predictions
    pair = [query], [str(prediction.canonical)]
    (found,) = retro.log_probs(*pair, aligned=True)
    assert found.predictions == (prediction,)
    (canonical,) = retro.log_probs(*pair, aligned=False)
    assert canonical.predictions[0].log_prob <= prediction.log_prob


def test_aligned_log_prob_is_that_of_the_likeliest_spelling() -> None:
    model = tiny.model()
    query, target = "CC(=O)Oc1ccc2c(c1)CCN2", "Oc1ccc2c(c1)CCN2"
    spellings = [target, *aligned_spellings(query, target)]
    results = model.log_probs([query] * len(spellings), spellings)
    scored = [result.predictions for result in results if not result.error]
    best = max(scored, key=lambda predictions: predictions[0].log_prob)
    for batch_size in (1, 4, 32):
        (found,) = model.log_probs([query], [target], aligned=True, batch_size=batch_size)
        assert found.predictions == best
    assert "target" in str(model.log_probs(["C"], ["junk"], aligned=True)[0].error)
