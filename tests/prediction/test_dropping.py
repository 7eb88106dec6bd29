"""Dropped answers, beams that are widened to replace them, and properties of results."""

import math
from dataclasses import replace

import pytest

from molspec import AnswerCache, load
from molspec.common.task import Task
from molspec.files import FORMATS, Answer, OutputContext, Query, predict
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import ALL_DROPPED, Prediction, Result, is_unchanged, note_on
from tests import refused, tiny

QUERIES = ("CCO", "N", "CCOCCOCCOC", "junk", "O", "CN", "C1CC1")
DROPPING = {"drop_invalid": True, "drop_unchanged": True, "merge_duplicates": True}


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(replace(tiny.checkpoint(8), canonical_queries=True))


def test_queries_are_decoded_once_without_widening(model: Model) -> None:
    every = model.predict(QUERIES, 8, max_length=12, merge_duplicates=True)
    narrow, wide = (
        model.predict(QUERIES, 8, max_length=12, max_beam_factor=factor, **DROPPING)
        for factor in (1, 8)
    )
    for query, whole, few in zip(QUERIES, every, narrow, strict=True):
        valid = [each for each in whole.predictions if each.is_valid]
        assert [*few.predictions] == [each for each in valid if not is_unchanged(each, query)]
    assert any(len(a.predictions) < len(b.predictions) for a, b in zip(narrow, wide, strict=True))
    assert sum(r.statistics.nodes for r in wide) > sum(r.statistics.nodes for r in narrow)


def test_unchanged_answers_are_dropped() -> None:
    def changed(query: str, *answers: str) -> list[str]:
        return [text for text in answers if not is_unchanged(Prediction(text, -1.0), query)]

    assert changed("OCC", "CCO", "CCO.Cl", "CC=O", "C(") == ["CC=O", "C("]
    assert changed("CC(=O)Cl>NCC", "CCN", "CC(Cl)=O", "CCNC(C)=O") == ["CCNC(C)=O"]
    assert changed("CC>", "CC", "CO") == changed(">CC", "CC", "CO") == ["CO"]
    assert changed("junk", "C", "junk") == ["C", "junk"]

    doubt = Result("C[C@H]([NH2:1])C(=O)O", task="retro").doubt
    answers = "C[C@H](N)C(=O)O.Cl", "C[C@@H](N)C(=O)O.Cl", "CC([NH3+])C(=O)[O-]", "CC(=O)C(=O)O.N"
    same, turned, charged, made = (doubt(Prediction(each, -1.0)) for each in answers)
    assert (same, made) == ("unchanged: the product is among the reactants", "")
    assert turned == charged == "unchanged but for its stereo"


@pytest.mark.parametrize("task", ["retro", "product", None])
def test_distinct_answers_of_reactants_are_not_the_query(task: Task | None) -> None:
    """Models that answer products may answer that nothing reacts."""
    model = Model(replace(tiny.checkpoint(8), canonical_queries=True, task=task))
    drops = model.decode_config(PredictOptions(4).distinct()).options.drop_unchanged
    assert drops is (task == "retro")
    for options in (PredictOptions(), PredictOptions(4), PredictOptions(samples=3).distinct()):
        assert model.decode_config(options).options.drop_unchanged is False
    assert PredictOptions(4, drop_unchanged=True).distinct().drop_unchanged


def test_results_give_probabilities_and_reactions() -> None:
    predictions = (Prediction("OCC.Cl", math.log(0.3)), Prediction("C(", math.log(0.1)))
    result = Result("CCO", predictions, task="retro")
    assert result.shares == pytest.approx((0.75, 0.25))
    assert result.reactions == ("CCO.Cl>>CCO", None)
    assert replace(result, query="CCO>N", task="product").reactions[0] == "CCO>N>CCO.Cl"
    assert Result("CCO", error="why").shares == ()
    with pytest.raises(ValueError, match="task is None"):
        _ = Result("CCO", predictions).reactions


def test_repr_of_a_model_gives_its_name_size_dtype_and_device() -> None:
    retro = load("retro", dtype="float32")
    assert repr(retro) == "<Model retro: 5.3 million parameters, float32, cpu>"
    assert round(retro.parameter_count / 1e6, 1) == 5.3
    assert "of unknown task" in repr(tiny.model())
    (result,) = retro.predict(["CC(=O)Nc1ccccc1"])
    assert str(result.reactions[0]).endswith(">>CC(=O)Nc1ccccc1")
    assert result.note is None
    (salt,) = retro.predict(["CC(=O)Nc1ccccc1.Cl |(1.5,,)|"])
    assert "a salt's molecule alone has other answers" in str(salt.note)
    assert note_on("NCCc1ccccc1~Cl", "retro") == salt.note
    assert note_on("CCO.N", "product") == note_on("C |(1.5,,)|", "retro") is None
    (failed,) = retro.predict(["no SMILES"])
    assert failed.task == "retro"
    assert failed.reactions == ()


def test_a_list_of_which_nothing_is_left_says_so_everywhere() -> None:
    model = Model(tiny.checkpoint(1))
    found = model.predict(["CCO", "junk"], 2, max_length=1, max_beam_factor=1, **DROPPING)
    assert [result.predictions for result in found] == [(), ()]
    assert found[0].error == ALL_DROPPED
    query = Query("CCO", "one")
    options = PredictOptions(2, max_length=1, max_beam_factor=1, **DROPPING)
    (answer,) = predict(model, [query], options)
    assert answer.error == ALL_DROPPED
    assert not answer.is_refused
    for form in FORMATS.values():
        assert ALL_DROPPED in form.render(answer, OutputContext("m", "retro"))
    cache = AnswerCache()
    for _ in range(2):
        (again,) = cache.predict(model, ["CCO"], options)
        assert again.error == ALL_DROPPED
    assert cache.hits == 1


def test_a_product_with_an_element_that_no_reactant_has_is_marked() -> None:
    found = Prediction("CCBr", -1.0), Prediction("CC[18OH]", -2.0)
    assert list(map(Result("CCO>[Na+].[H][H]", found, task="product").doubt, found)) == [
        "impossible: no reactant has Br",
        "",
    ]
    result = Result("Brc1c[nH]c[se]1", task="retro")
    for answer, new in (("BrBr.c1c[nH]c[se]1", ""), ("C1CNC1.Cl[SiH3]", "Br, Se"), ("*", "")):
        expected = f"impossible: no reactant has {new}" if new else ""
        assert result.doubt(Prediction(answer, -1.0)) == expected
    assert Result("CCO").doubt(found[0]) == ""
    context = OutputContext("m", "product")
    answer = Answer(1, Query("CCO", note="read so"), Result("CCO", found, task="product"))
    for name, form in FORMATS.items():
        assert form.render(answer, context).count("no reactant has Br") == 1, name
    assert "read so; impossible" in FORMATS["csv"].render(answer, context)


def test_a_last_dot_of_an_answer_is_nothing() -> None:
    assert Prediction("OCC.", -1.0).canonical == "CCO"
    assert Prediction(".", -1.0).canonical is None


def test_a_salt_without_its_ions_is_not_impossible() -> None:
    (answer,) = predict(load("retro"), [Query("Cl.CN(C)CCc1ccccc1")], PredictOptions())
    assert "without Cl" in answer.query.note
    assert answer.note_on(answer.result.predictions[0]) == answer.query.note


def test_impossible_answers_are_dropped() -> None:
    options = {"max_length": 12, "max_beam_factor": 1}
    model = Model(replace(tiny.checkpoint(8), canonical_queries=True, task="product"))
    (every,) = model.predict(["CC"], 10, **options)
    possible = tuple(each for each in every.predictions if not every.doubt(each))
    assert len(possible) < len(every.predictions)
    (left,) = model.predict(["CC"], 10, drop_impossible=True, **options)
    assert left.predictions == possible
    assert left.error == (None if possible else ALL_DROPPED)
    other = Model(tiny.checkpoint(8))
    refused("drop_impossible is True", other.predict, ["CC"], drop_impossible=True)
