"""Log-probs of given targets equal those of predictions."""

import math
from dataclasses import replace
from typing import Any

import pytest

from molspec import load
from molspec.prediction.decoder import Decoder
from molspec.prediction.model import Model
from tests import refused, tiny


@pytest.mark.parametrize("token_log_probs", [False, True])
@pytest.mark.parametrize("model", ["float32", "bfloat16", "int8", "ensemble"])
@pytest.mark.parametrize("n_best", [1, 6])
def test_predictions_have_the_log_probs_of_given_targets_to_the_bit(
    model: str, n_best: int, token_log_probs: bool
) -> None:
    made = (
        Model(tiny.checkpoint(), others=tiny.others())
        if model == "ensemble"
        else tiny.model(dtype=model)
    )
    options: dict[str, Any] = {"token_log_probs": token_log_probs}
    predicted = made.predict(tiny.QUERIES, n_best, max_length=60, **options)
    queries, expected = zip(*tiny.finished_answers(predicted), strict=True)
    targets = [answer.smiles for answer in expected]
    for batch_size in (1, 3, 32):
        results = made.log_probs(queries, targets, batch_size=batch_size, **options)
        assert [(result.query, result.error) for result in results] == [(q, None) for q in queries]
        assert [result.predictions for result in results] == [(answer,) for answer in expected]
        assert {result.statistics.decoder_calls for result in results} == {1}


def test_bad_pair_gets_an_error_and_the_others_get_answers() -> None:
    model = tiny.model()
    longest = model.spec.max_positions - 1
    queries = ["CCO", "C(C", "CCO", "CCO", "CCO", "CCO"]
    targets = ["CC", "CC", "[U]", "", "C" * (longest + 1), "C" * longest]
    results = model.log_probs(queries, targets)
    errors = [result.error and result.error.split(":")[0] for result in results]
    assert errors == [None, "not a molecule to RDKit", *["target"] * 3, None]
    assert str(results[4].error).endswith(f"{longest}, the model's longest target")
    assert math.isfinite(results[5].predictions[0].log_prob)
    assert list(model.log_probs(["CCO"], ["CC"])) == results[:1]
    for aligned in (False, True):
        (result,) = model.log_probs(["CCO"], [None], aligned=aligned)  # type: ignore[list-item]
        assert str(result.error).startswith("target: ")
        decoder = Decoder(model)  # a target that is too long is refused at the first step
        decoder.submit("CCO", target=targets[4], aligned=aligned)
        ((_, refusal),) = decoder.step()
        assert refusal.error == results[4].error


def test_queries_are_canonicalised_as_for_predictions() -> None:
    model = tiny.model()
    as_given, canonical = (
        model.log_probs(["OCC"], ["CC"], canonical_queries=canonical)[0]
        for canonical in (False, True)
    )
    assert as_given.predictions != canonical.predictions
    assert canonical.predictions == model.log_probs(["CCO"], ["CC"])[0].predictions


def test_invalid_arguments_are_refused() -> None:
    model = tiny.model()
    refused("targets has 1 items", model.log_probs, ["CCO", "C"], ["CC"])
    refused("queries is a string", model.log_probs, "CCO", ["CC"])
    refused("batch_size is 0", model.log_probs, ["CCO"], ["CC"], batch_size=0)
    for pairs in (["CO"], [("CC",)], [None]):
        refused("pairs holds", list, model.log_probs_stream(pairs))  # type: ignore[arg-type]
    assert list(model.log_probs([], [])) == []
    expected = list(model.log_probs(["CCO"], ["CC"]))
    assert list(model.log_probs(iter(["CCO"]), iter(["CC"]))) == expected


def test_aligned_targets_may_have_maps_and_a_last_dot() -> None:
    model = load("retro")
    query = "CC(=O)Nc1ccccc1"
    mapped = "[CH3:1][C:2](=[O:3])Cl.[NH2:4]c1ccccc1"
    targets = ["CC(=O)Cl.Nc1ccccc1", mapped, "Nc1ccccc1.CC(=O)Cl."]
    found = model.log_probs([query] * 3, targets, aligned=True)
    assert len({result.predictions[0].log_prob for result in found}) == 1
    (as_spelt,) = model.log_probs([query], [mapped], aligned=False)
    assert "not in the model's" in str(as_spelt.error)


ESTER, ACID = "CCOC(=O)C(C)c1ccc(CC(C)C)cc1", "CC(C)Cc1ccc(C(C)C(=O)O)cc1"


@pytest.mark.parametrize(
    ("name", "queries"),
    [
        ("product", [ESTER, "CC(=O)Cl.Nc1ccccc1", "OB(O)c1ccccc1.Brc1ccncc1"]),
        ("retro", ["CC(=O)Nc1ccccc1", "c1ccc(-c2ccncc2)cc1", "C[C@H](N)C(=O)OCC"]),
    ],
)
@pytest.mark.parametrize("token_log_probs", [False, True])
def test_a_first_answer_has_the_score_that_predict_gives_it(
    name: str, queries: list[str], token_log_probs: bool
) -> None:
    model = load(name)
    predicted = model.predict(queries, token_log_probs=token_log_probs)
    targets = [str(result.predictions[0].canonical) for result in predicted]
    scored = model.log_probs(queries, targets, token_log_probs=token_log_probs)
    assert list(scored) == list(predicted)


def test_models_of_aligned_text_score_molecules_and_others_texts() -> None:
    """The step to ibuprofen is not improbable because of its canonical spelling."""
    model = load("product")
    spelt, molecule = (
        model.log_probs([ESTER], [ACID], aligned=aligned)[0].predictions[0]
        for aligned in (False, True)
    )
    assert math.exp(spelt.log_prob) < 1e-4 < 0.5 < math.exp(molecule.log_prob)
    assert model.log_probs([ESTER], [ACID])[0].predictions == (molecule,)
    (streamed,) = model.log_probs_stream([(ESTER, ACID)])
    assert streamed.predictions == (molecule,)
    plain = tiny.model()
    assert plain.log_probs(["CCO"], ["OCC"]) == plain.log_probs(["CCO"], ["OCC"], aligned=False)
    assert plain.log_probs(["CCO"], ["OCC"]) != plain.log_probs(["CCO"], ["OCC"], aligned=True)
    either = Model(tiny.checkpoint(), others=[replace(tiny.checkpoint(2), aligned=True)])
    assert either.aligned


def test_a_molecule_without_aligned_spellings_is_scored_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("molspec.prediction.decoder.rooted_spellings", lambda _: ["[U]"])
    model = tiny.model()
    one, other = (model.log_probs(["CCO"], ["CCN"], aligned=each) for each in (True, False))
    assert one == other
