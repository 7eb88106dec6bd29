"""Answers that are kept: the model's own, found by molecule and settings, bounded, in a file."""

from __future__ import annotations

from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from molspec.cache import AnswerCache
from molspec.options import PredictOptions
from molspec.predictor import Model
from tests import tiny

OPTIONS = PredictOptions(n_best=3, max_length=20, merge_duplicates=True)
QUERIES = ("CC(=O)Oc1ccc2c(c1)CCN2", "CCO", "junk", "N", "CCO")
#: The same molecules, spelt otherwise.
OTHERWISE = ("N1CCc2cc(OC(=O)C)ccc12", "OCC", "junk", "[NH3]", "C(O)C")


def model(seed: int = 1, dtype: str = "float32") -> Model:
    return Model(replace(tiny.checkpoint(seed), canonical_queries=True, task="retro"), dtype)


@pytest.fixture(scope="module")
def asked() -> Model:
    return model()


def test_answers_are_the_models_own(asked: Model) -> None:
    cache = AnswerCache()
    expected = list(asked.predict_stream(QUERIES, OPTIONS))
    for queries in (QUERIES, OTHERWISE, QUERIES):
        found = cache.predict(asked, queries, OPTIONS)
        assert [result.query for result in found] == list(queries)
        for result, own in zip(found, expected, strict=True):
            assert (result.predictions, result.error) == (own.predictions, own.error)
            assert result.task == "retro"
            assert [each.canonical for each in result.predictions] == [
                each.canonical for each in own.predictions
            ]
    assert (cache.misses, cache.hits, len(cache)) == (4, 11, 4)


def test_settings_and_models_have_answers_of_their_own(asked: Model) -> None:
    cache = AnswerCache()
    for other in (asked, model(2), model(dtype="bfloat16")):
        for options in (OPTIONS, replace(OPTIONS, n_best=2), replace(OPTIONS, views=2)):
            (found,) = cache.predict(other, ["CCO"], options)
            assert [found] == list(other.predict_stream(["CCO"], options))
    assert (cache.misses, cache.hits) == (9, 0)
    cache.predict(asked, ["CCO"], replace(OPTIONS, batch_size=7))
    assert (cache.misses, cache.hits) == (9, 1)


def test_a_text_is_a_query_of_its_own_where_the_model_is_asked_in_it(asked: Model) -> None:
    cache = AnswerCache()
    options = replace(OPTIONS, canonical_queries=False)
    for query in ("CCO", "OCC"):
        assert cache.predict(asked, [query], options) == list(
            asked.predict_stream([query], options)
        )
    assert cache.misses == 2


def test_what_was_used_longest_ago_goes_first(asked: Model) -> None:
    cache = AnswerCache(capacity=2)
    for query in ("C", "N", "C", "O"):
        cache.predict(asked, [query], OPTIONS)
    assert (cache.misses, len(cache)) == (3, 2)
    cache.predict(asked, ["C", "O"], OPTIONS)
    assert cache.misses == 3
    cache.predict(asked, ["N"], OPTIONS)
    assert cache.misses == 4
    assert len(cache.predict(asked, ["C", "N", "O"], OPTIONS)) == 3  # more than it keeps
    assert len(cache) == 2


def _ask(path: Path, queries: tuple[str, ...]) -> int:
    cache = AnswerCache(path=path)
    cache.predict(model(), queries, OPTIONS)
    return cache.misses


def test_a_file_keeps_the_answers_for_other_processes(asked: Model, tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    with get_context("spawn").Pool(2) as pool:
        asked_for = pool.starmap(_ask, [(path, ("C", "N")), (path, ("O", "CC"))])
    assert asked_for == [2, 2]
    cache = AnswerCache(path=path)
    found = cache.predict(asked, ["C", "N", "O", "CC"], OPTIONS)
    assert cache.misses == 0
    assert found == list(asked.predict_stream(["C", "N", "O", "CC"], OPTIONS))
    cache.close()


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="capacity is 0: expected at least 1"):
        AnswerCache(0)
    other = tmp_path / "letter.txt"
    other.write_text("Dear reader, " * 100)
    with pytest.raises(ValueError, match=r"letter.txt': expected a file of answers"):
        AnswerCache(path=other)
    with pytest.raises(OSError, match="absent"):
        AnswerCache(path=tmp_path / "absent" / "answers.sqlite")
