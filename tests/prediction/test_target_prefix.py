"""target_prefix as text, and as a molecule that is one of the reactants."""

import math
from dataclasses import replace
from typing import Any

import pytest

from molspec import Decoder, Model, PredictOptions, load
from molspec.text import aligned, canonicalise, other_spellings
from tests import refused, tiny

ANILINE = "Nc1ccccc1"
#: Amides of aniline, the first of which begins with the other reactant.
QUERIES = ("CC(=O)Nc1ccccc1", "O=C(Nc1ccccc1)c1ccccc1", "N#Cc1ccccc1CC(=O)Nc1ccccc1")
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"n_best": 3},
    {"n_best": 3, "augmentations": 3},
    {"n_best": 2, "augmentations": 4, "augment_below": 0.3},
    {"n_best": 2, "merge_duplicates": True, "drop_invalid": True, "drop_unchanged": True},
    {"samples": 4, "seed": 2},
    {"n_best": 2, "beam": "sbs"},
)


@pytest.fixture(scope="module")
def retro() -> Model:
    return load("retro")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_reactant_is_in_every_answer(retro: Model, options: dict[str, Any]) -> None:
    results = retro.predict([*QUERIES, "junk"], target_prefix=ANILINE, **options)
    for result in results[:-1]:
        assert result.predictions
        for answer in result.predictions:
            assert answer.log_prob <= (answer.log_prob_after_prefix or 0) <= 0
            if answer.is_valid:
                assert ANILINE in str(answer.canonical).split(".")
    assert str(results[-1].error).startswith("not SMILES")
    apart = [
        result
        for query in QUERIES
        for result in retro.predict([query], target_prefix="c1ccccc1[NH2:7].", **options)
    ]
    assert results[:-1] == apart


def test_query_and_reactant_are_written_from_the_same_atom(retro: Model) -> None:
    for query in QUERIES:
        spellings = [query, *other_spellings(query, 99)]
        reactants = [ANILINE, *other_spellings(ANILINE, 9)]
        spelt, begin = aligned.spelt_alike(spellings, reactants)[0]
        assert canonicalise(spelt) == query
        ((answer,),) = (r.predictions for r in retro.predict([query], target_prefix=ANILINE))
        assert answer.smiles.startswith(f"{begin}.")
        (forced,) = retro.log_probs([spelt], [answer.smiles], canonical_queries=False)
        assert forced.predictions[0].log_prob == answer.log_prob
    # The canonical query begins with the other reactant: there the answer is improbable.
    (given,) = retro.predict([QUERIES[0]], target_prefix=ANILINE, canonical_queries=False)
    (found,) = retro.predict([QUERIES[0]], target_prefix=ANILINE)
    assert given.predictions[0].log_prob < found.predictions[0].log_prob - 5


def test_the_rest_is_the_known_reactant(retro: Model) -> None:
    (result,) = retro.predict([QUERIES[0]], 5, target_prefix="CC(=O)Cl")
    assert result.predictions[0].canonical == "CC(=O)Cl.Nc1ccccc1"
    assert math.exp(result.predictions[0].log_prob_after_prefix or 0) > 0.9


def test_spellings_that_begin_alike_come_first() -> None:
    queries = ["CC(=O)Nc1ccccc1", "N(C(C)=O)c1ccccc1", "c1ccccc1NC(C)=O"]
    pairs = aligned.spelt_alike(queries, ["Nc1ccccc1", "c1ccccc1N"])
    assert (len(pairs), pairs[0]) == (6, (queries[2], "c1ccccc1N"))


def test_a_model_of_products_writes_the_text_first(model: Model) -> None:
    product = Model(replace(tiny.checkpoint(), task="product"))
    for each in (model, product):
        results = each.predict(tiny.QUERIES[:5], 3, target_prefix=" CC( ", max_length=20)
        for answer in (answer for result in results for answer in result.predictions):
            assert answer.smiles.startswith("CC(")
    query = "O=C(O)c1ccccc1"
    free = model.predict([query], max_length=20)[0].predictions[0]
    same = model.predict([query], max_length=20, target_prefix=free.smiles[:2])[0].predictions[0]
    assert (same.smiles, same.log_prob) == (free.smiles, free.log_prob)
    assert free.log_prob_after_prefix is None


def test_the_last_dot_of_a_text_counts() -> None:
    for prefix, begin in (("CC.", "CC."), ("CC. ", "CC."), ("C C (", "CC(")):
        (result,) = load("product").predict(["CCO"], target_prefix=prefix, max_length=9)
        assert result.predictions[0].smiles.startswith(begin)


def test_a_model_whose_decoder_writes_bos_first_writes_it_before_the_prefix() -> None:
    checkpoint = tiny.checkpoint()
    spec = replace(checkpoint.spec, start_id=checkpoint.vocabulary.eos_id, target_bos=True)
    model = Model(replace(checkpoint, spec=spec))
    ids = model.reader.pair("C", "CC", canonical=False).token_ids
    assert ids == [model.vocabulary.bos_id, *model.vocabulary.encode("CC")]
    (result,) = model.predict(["C"], 5, target_prefix="CC")
    for answer in result.predictions:
        assert answer.smiles.startswith("CC")
        assert model.log_probs(["C"], [answer.smiles])[0].predictions == (
            replace(answer, log_prob_after_prefix=None),
        )


def test_wrong_prefixes_are_refused_before_work(model: Model, retro: Model) -> None:
    for each, value, message in (
        (model, 5, "target_prefix is 5"),
        (model, "", "target_prefix is '': empty"),
        (model, "CS", "target_prefix is 'CS': not in the model's vocabulary: 'S'"),
        (model, "CCCC", "target_prefix is 'CCCC': 4 tokens"),
        (model, "CC)", r"target_prefix is 'CC\)': no molecule's SMILES begins with it"),
        (model, "C=)", r"target_prefix is 'C=\)': no molecule's SMILES begins with it"),
        (retro, "junk", "target_prefix is 'junk': not SMILES"),
        (retro, "C1CC", "target_prefix is 'C1CC': not a molecule"),
        (retro, "C.C", r"target_prefix is 'C\.C': '\.' between molecules"),
        (retro, "C>C", "target_prefix is 'C>C': '>' between molecules"),
        (model, "C" * 99, r"target_prefix is 'C+\.\.\.' of 99 characters: 99 tokens"),
        (retro, "[Og]", r"target_prefix is '\[Og\]': not in the model's vocabulary"),
        (retro, "CCCC", "target_prefix is 'CCCC': 5 tokens"),
    ):
        refused(f"^{message}", each.predict, ["CCO"], target_prefix=value, max_length=4)  # type: ignore[arg-type]
    options = PredictOptions(target_prefix="C")
    refused("^target_prefix is given with", Decoder(model).submit, "C", options, target="CC")
