"""Spellings of a target that are aligned with a query."""

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
