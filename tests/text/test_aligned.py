"""Spellings of a target that are aligned with a query."""

from itertools import permutations, product

import pytest

from molspec import load
from molspec.text import rooted_spellings
from tests import tiny


def test_a_spelling_begins_at_each_atom() -> None:
    assert rooted_spellings("CCO") == ["CCO", "C(C)O", "OCC"]
    assert rooted_spellings("junk") == ["junk"]
    of_metal = {"C[N](C)(C)[Pd]", "[N](C)(C)(C)[Pd]", "[Pd][N](C)(C)C"}
    assert set(rooted_spellings("C[N](C)(C)[Pd]")) == of_metal


@pytest.mark.parametrize(
    ("name", "query", "target"),
    [
        (None, "CC(=O)Oc1ccc2c(c1)CCN2", "Oc1ccc2c(c1)CCN2"),
        ("retro", "CC(=O)Nc1ccccc1", "Nc1ccccc1.CC(=O)CCl"),
        ("retro", "CC(=O)Nc1ccccc1", "CCO.CO.CO"),
    ],
)
def test_aligned_log_prob_is_that_of_the_likeliest_spelling(
    name: str | None, query: str, target: str
) -> None:
    """Of several molecules in each order, from each of their atoms."""
    model = tiny.model() if name is None else load(name)
    texts = {
        ".".join(order)
        for spelt in product(*map(rooted_spellings, target.split(".")))
        for order in permutations(spelt)
    }
    results = model.log_probs([query] * len(texts), texts)
    scored = [result.predictions for result in results if not result.error]
    best = max(scored, key=lambda predictions: predictions[0].log_prob)
    for batch_size in (1, 4, 32):
        (found,) = model.log_probs([query], [target], aligned=True, batch_size=batch_size)
        assert found.predictions == best
    assert "target" in str(model.log_probs(["C"], ["junk"], aligned=True)[0].error)


@pytest.mark.parametrize(
    ("name", "query"),
    [
        # The spelling begins at the bond that is formed, with the group that leaves.
        ("retro", "NC(=O)c1cccc(-c2cccc3sc(Cc4ccc(F)c(F)c4)cc23)c1"),
        ("retro", "COc1ccc(C2CCOCC2)cc1NC(N)=S"),
        # As the query's, it has its branches in an order that is not RDKit's.
        ("product", "CC(=O)Cl.CCOC(=O)C(O)CCC(=O)OCc1ccccc1"),
        # A listed answer whose canonical SMILES has a token that the model lacks, and others.
        ("retro", "C=CC1(c2cncc(-c3ccc4c(c3)CCc3nncn3-4)c2)CC1"),
    ],
)
def test_a_listed_answer_is_scored_as_in_its_list_or_higher(name: str, query: str) -> None:
    model = load(name)
    (listed,) = model.predict([query], n_best=5)
    answers = [each for each in listed.predictions if each.canonical]
    targets = [str(each.canonical) for each in answers]
    results = model.log_probs([query] * len(targets), targets)
    scored = [result.predictions[0].log_prob for result in results]
    assert all(score >= each.log_prob for score, each in zip(scored, answers, strict=True))
