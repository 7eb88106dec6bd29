"""Predictions: canonical or unchanged queries, wrong input, streams, and copies of models."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from molspec import load
from molspec.checkpoints import Checkpoint, CheckpointError, read, write
from molspec.checkpoints.bundled import locate
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from molspec.text import PieceVocabulary
from tests import refused, tiny
from tests.engine.models import default_dtype

#: A canonical query, and other ways to write it.
CANONICAL = "CC(=O)Oc1ccc2c(c1)CCN2"
SPELLINGS = (
    CANONICAL,
    "C1=CC2=C(C=C1OC(C)=O)CCN2",
    "O=C(C)Oc1ccc2NCCc2c1",
    "N1CCc2cc(OC(=O)C)ccc12",
)
MAPPED = "[CH3:1][C:2](=[O:3])[O:4]c1ccc2c(c1)CC[NH:5]2"


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(replace(tiny.checkpoint(), canonical_queries=True))


def test_every_spelling_gets_the_answers_of_the_canonical_one(model: Model) -> None:
    queries = [*SPELLINGS, MAPPED]
    results = model.predict(queries, n_best=3, max_length=20)
    (expected,) = model.predict([CANONICAL], n_best=3, max_length=20, canonical_queries=False)
    assert expected.predictions
    for query, result in zip(queries, results, strict=True):
        assert result.query == query
        assert result.predictions == expected.predictions


def test_a_long_spelling_of_a_short_query_is_answered(model: Model) -> None:
    spelt, short = model.predict(["C([H])([H])" * 60, "C" * 60], max_length=20)
    assert spelt.error is None
    assert spelt.predictions == short.predictions


def test_queries_are_read_unchanged_without_canonical_queries(model: Model) -> None:
    unchanged = model.predict(SPELLINGS, max_length=20, canonical_queries=False)
    assert len({result.predictions for result in unchanged}) == len(SPELLINGS)
    for canonical, answers in ((None, unchanged), (True, model.predict(SPELLINGS, max_length=20))):
        found = tiny.model().predict(SPELLINGS, max_length=20, canonical_queries=canonical)
        assert list(found) == list(answers)
    (mapped,) = model.predict([MAPPED], max_length=20, canonical_queries=False)
    assert (mapped.error or "").startswith("not in the model's vocabulary: '[CH3:1]', '[C:2]'")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "empty: expected a SMILES string"),
        ("CC O", "not SMILES: ' ' at position 3"),
        ("CC(C", "not a molecule to RDKit: "),
        ("[U]", "not in the model's vocabulary: '[U]'"),
        ("[U:1]", "not in the model's vocabulary: '[U]', read as '[U]'"),
        ("C" * 260, "260 tokens"),
        # The length is checked before RDKit, which would name the parenthesis.
        ("C" * 1016 + "(", "1017 tokens"),
    ],
)
def test_bad_query_fails_alone_with_the_reason(model: Model, query: str, message: str) -> None:
    before, bad, after = model.predict(["CCO", query, "OCC"], max_length=20)
    assert (bad.error or "").startswith(message)
    assert bad.predictions == ()
    assert before.predictions == after.predictions


@pytest.mark.parametrize("batch_size", [1, 32])
@pytest.mark.parametrize("views", [1, 3])
def test_slow_source_does_not_delay_the_answers(model: Model, views: int, batch_size: int) -> None:
    queries = ["CC(C", "CCO", "", "CC(C", "OCC", "N", "junk"]
    expected = model.predict(queries, augmentations=views, max_length=20)
    answered = [Event() for _ in queries]

    def reading() -> Iterator[str]:
        for query, event in zip(queries, answered, strict=True):
            yield query
            assert event.wait(60)  # the next query waits for this answer

    options = PredictOptions(batch_size=batch_size, augmentations=views, max_length=20)
    for index, result in enumerate(model.predict_stream(reading(), options)):
        assert result == expected[index]
        answered[index].set()
    assert all(event.is_set() for event in answered)


def test_error_of_the_source_follows_the_answers_before_it(model: Model) -> None:
    def reading() -> Iterator[str]:
        yield "CCO"
        yield "OCC"
        raise OSError("the disk is gone")

    stream = model.predict_stream(reading(), PredictOptions(max_length=20))
    assert [next(stream).query, next(stream).query] == ["CCO", "OCC"]
    refused(OSError, "the disk is gone", next, stream)


def test_closed_stream_reads_no_more_queries(model: Model) -> None:
    read: list[int] = []

    def reading() -> Iterator[str]:
        for index in range(1000):
            read.append(index)
            yield "CCO"

    stream = model.predict_stream(reading(), PredictOptions(batch_size=2, max_length=20))
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert len(read) < 10


#: Tables of pandas and polars, and one of pyarrow, whose columns have no names.
FRAME = SimpleNamespace(columns=("id", "SMILES", "price"))
ARROW = SimpleNamespace(columns=([1], ["CCO"]), column_names=("id", "SMILES"))


@pytest.mark.parametrize(
    ("given", "error", "named"),
    [
        ("CCO", ValueError, "a string"),
        (b"CCO", ValueError, "bytes"),
        (None, ValueError, "None"),
        (3, ValueError, "3"),
        (FRAME, TypeError, r"a SimpleNamespace of id, SMILES.*queries\['SMILES'\]"),
        (ARROW, TypeError, r"a SimpleNamespace of id, SMILES.*queries\['SMILES'\]"),
        ({"id": [1], "SMILES": ["CCO"]}, TypeError, r"a dict of id, SMILES.*queries\['SMILES'\]"),
    ],
)
def test_other_things_than_a_list_of_queries_are_refused(
    model: Model, given: Any, error: type[Exception], named: str
) -> None:
    for call in (model.predict, model.predict_stream, lambda each: model.log_probs(each, ["C"])):
        refused(error, f"^queries is {named}", call, given)
    refused(error, "^targets is ", model.log_probs, ["C", "C", "O"], given)
    refused(error, "^pairs is ", model.log_probs_stream, given)


def test_canonical_queries_of_learned_pieces_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint: Checkpoint = tiny.checkpoint()
    monkeypatch.setattr(type(checkpoint.vocabulary), "atomwise", PieceVocabulary.atomwise)
    pieces = tiny.model()
    message = "for a vocabulary of learned pieces$"
    refused(CheckpointError, message, replace, checkpoint, canonical_queries=True)
    refused("^canonical_queries is True", pieces.predict, ["CCO"], canonical_queries=True)


@pytest.mark.parametrize("first_inside", [True, False])
def test_stream_works_inside_and_outside_inference_mode(first_inside: bool) -> None:
    model = tiny.model()
    queries = ["CCO", "CCN", "CCC", "CCCC"]
    expected = list(model.predict(queries, max_length=20))
    stream = model.predict_stream(queries, PredictOptions(batch_size=1, max_length=20))
    results = []
    for index in range(len(queries)):
        inside = (index % 2 == 0) == first_inside
        with torch.inference_mode(inside):
            results.append(next(stream))
            assert torch.is_inference_mode_enabled() == inside
    assert results == expected


def test_a_list_of_one_query_takes_as_few_calls_as_one_alone() -> None:
    model, queries = load("product"), ["CC(=O)Cl.Nc1ccccc1"]
    given: list[tuple[Any, dict[str, Any]]] = [(queries, {}), (queries, {"batch_size": 1})]
    given.append((iter(queries), {}))  # that no others follow is not known
    calls = [model.predict(each, **options).statistics.decoder_calls for each, options in given]
    assert calls[0] == calls[1] < calls[2]


def test_device_may_be_a_torch_device() -> None:
    for device in (torch.device("cpu"), torch.device("cpu", 0)):
        assert load("product", device=device).device == "cpu"
    refused("^device is 'meta'", load, "product", device=torch.device("meta"))


@pytest.mark.parametrize("name", ["product", "retro"])
def test_a_model_runs_in_the_dtype_that_it_names(name: str) -> None:
    queries = ["CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1"]
    named, exact = load(name), load(name, dtype="float32")
    assert (named.dtype, exact.dtype) == ("int8", "float32")
    assert named.predict(queries, 3) == load(name, dtype="int8").predict(queries, 3)
    assert exact.predict(queries, 3) == Model(read(locate(name))).predict(queries, 3)
    assert load(name, dtype=torch.bfloat16).dtype == "bfloat16"


def test_a_model_that_names_no_dtype_or_models_that_differ_run_in_float32(tmp_path: Path) -> None:
    plain, small, half, wrong = (tmp_path / str(number) for number in range(4))
    write(tiny.checkpoint(), plain)
    for path, dtype in ((small, "int8"), (half, "bfloat16"), (wrong, "fp8")):
        write(replace(tiny.checkpoint(), runs_in={"cpu": dtype}), path)
    assert load(plain).dtype == "float32"
    assert load([small, small]).dtype == "int8"
    assert [load([small, other]).dtype for other in (plain, half)] == ["float32"] * 2
    assert load([small, plain], dtype="int8").dtype == "int8"
    refused(CheckpointError, f"^{wrong}: dtype is 'fp8': expected float32", load, wrong)
    assert load(wrong, dtype="float32").dtype == "float32"


@pytest.mark.parametrize(
    "setting",
    [
        lambda: default_dtype(torch.float64),
        lambda: default_dtype(torch.float16),
        lambda: torch.device("meta"),
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        torch.inference_mode,
    ],
    ids=["float64", "float16", "device", "autocast", "inference"],
)
@pytest.mark.parametrize(("dtype", "drafter"), [("float32", "heads"), ("int8", None)])
def test_torch_settings_change_no_answer(setting: Any, dtype: str, drafter: Any) -> None:
    checkpoint, state = tiny.with_heads(), torch.get_rng_state()
    model = Model(checkpoint, dtype)
    options: dict[str, Any] = {"drafter": drafter, "max_length": 12}
    expected = model.predict(tiny.QUERIES[:3], **options)
    assert torch.equal(torch.get_rng_state(), state)
    with setting():
        assert model.predict(tiny.QUERIES[:3], **options) == expected
        other = Model(checkpoint, dtype)
    assert other.predict(tiny.QUERIES[:3], **options) == expected
    assert expected.statistics.drafted_tokens > 0


def test_queries_and_targets_may_have_extensions_or_blanks() -> None:
    model = load("retro", dtype="int8")
    queries = ["CC(=O)NC", "CC(=O)NC |r|", "C C ( = O ) N C", "CC(=O)NC |&1:1|"]
    plain, *others = model.predict(queries)
    for other in others:
        assert other.predictions == plain.predictions
        assert other.reactions == plain.reactions
    scores = model.log_probs(["CC(=O)NC"] * 2, ["CN.CC(=O)O", "CN.CC(=O)O |f:0.1|"], aligned=True)
    assert scores[0].predictions == scores[1].predictions
