"""The cache of answers: keys of molecule and settings, a bounded size, a file, and its damage."""

import pickle
import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from molspec.common.workers import in_processes
from molspec.drafting import DraftTree, SpecDraft
from molspec.prediction.cache import AnswerCache
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from molspec.prediction.queries import QueryReader
from tests import refused, tiny
from tests.drafting.drafters import Silent

OPTIONS = PredictOptions(n_best=3, max_length=20, merge_duplicates=True)
QUERIES = ("CC(=O)Oc1ccc2c(c1)CCN2", "CCO", "junk", "N", "CCO")
#: Other spellings of the same molecules.
RESPELT = ("N1CCc2cc(OC(=O)C)ccc12", "OCC", "junk", "[NH3]", "C(O)C")


def model(seed: int = 1, dtype: str = "float32") -> Model:
    return Model(replace(tiny.checkpoint(seed), canonical_queries=True, task="retro"), dtype)


@pytest.fixture(scope="module")
def tiny_model() -> Model:
    return model()


def test_cached_answers_equal_those_of_the_model(tiny_model: Model) -> None:
    cache = AnswerCache()
    expected = list(tiny_model.predict_stream(QUERIES, OPTIONS))
    for queries in (QUERIES, RESPELT, QUERIES):
        found = cache.predict(tiny_model, queries, OPTIONS)
        assert [result.query for result in found] == list(queries)
        for result, direct in zip(found, expected, strict=True):
            assert (result.predictions, result.error) == (direct.predictions, direct.error)
            assert result.task == "retro"
            assert [each.canonical for each in result.predictions] == [
                each.canonical for each in direct.predictions
            ]
    assert (cache.misses, cache.hits, len(cache)) == (6, 9, 3)  # "junk" is read three times


class Repeating(Silent):
    """Drafts the same token again and again."""

    def __init__(self, token_id: int) -> None:
        super().__init__()
        self._tree = DraftTree([token_id], [-1], [0.0])

    def propose(self, paths: Sequence[Any]) -> list[DraftTree]:
        return [self._tree] * len(paths)


RELAXED: dict[str, Any] = {"verification": "relaxed", "beta": 12, "tau": 50.0, "max_length": 8}
SAMPLES: dict[str, Any] = {"samples": 3, "max_length": 6}
#: Options, whose answers are each stored once, whatever more of them is asked for.
SETTINGS: tuple[tuple[dict[str, Any], list[dict[str, Any]]], ...] = (
    ({"max_length": 12}, [{"drafter": d} for d in ("none", "windows", Repeating(4))]),
    ({"n_best": 3, "max_length": 12}, [{"batch_size": 7}]),
    ({"n_best": 2, "max_length": 12}, []),
    ({"n_best": 2, "max_length": 12, "target_prefix": "CC"}, []),
    ({"n_best": 2, "max_length": 12, "target_prefix": "N"}, []),
    ({"n_best": 2, "max_length": 12, "augmentations": 2}, []),
    ({"n_best": 2, "max_length": 12, "augmentations": 2, "augment_below": 0.5}, []),
    (SAMPLES | {"temperature": 2}, [{"temperature": 2.0, "drafter": "none"}]),
    (SAMPLES | {"seed": 1}, []),
    (SAMPLES | {"merge_duplicates": True}, []),
    (RELAXED, []),
    (RELAXED | {"batch_size": 8}, []),  # it chooses the default tree, which decides too
    (RELAXED | {"drafter": SpecDraft(k=2)}, []),
    (RELAXED | {"drafter": SpecDraft(k=3)}, []),
)


def test_answers_are_shared_by_options_that_decide_the_same() -> None:
    cache, stored, asked = AnswerCache(), 0, 0
    drafting = replace(tiny.with_spec_drafter(2), canonical_queries=True)
    other = replace(tiny.checkpoint(2), canonical_queries=True)
    for each in (Model(drafting), Model(drafting, "bfloat16"), Model(other)):
        own = each.context.spec_drafter is not None
        for given, others in SETTINGS:
            if not own and isinstance(given.get("drafter"), SpecDraft):
                continue
            stored += 1
            for more in ({}, {}, *others):
                asked += 1
                options = PredictOptions(**given | more)
                (found,) = cache.predict(each, ["CCO"], options)
                assert [found] == list(each.predict_stream(["CCO"], options))
            assert (cache.misses, cache.hits) == (stored, asked - stored), given


def test_answers_that_an_object_decides_and_other_spellings_are_no_answers_of_another(
    tiny_model: Model,
) -> None:
    cache = AnswerCache()
    for token_id in (4, 6):
        options = PredictOptions(drafter=Repeating(token_id), **RELAXED)
        found = cache.predict(tiny_model, ["CCO"], options)
        assert found == list(tiny_model.predict_stream(["CCO"], options))
    assert (cache.hits, len(cache)) == (0, 0)
    options = replace(OPTIONS, canonical_queries=False)
    for query in ("CCO", "OCC"):
        found = cache.predict(tiny_model, [query], options)
        assert found == list(tiny_model.predict_stream([query], options))
    assert (cache.hits, len(cache)) == (0, 2)


class _WithoutText:
    """Text of which there is none."""

    def __str__(self) -> str:
        raise RuntimeError


def test_arguments_are_checked_as_those_of_the_model(tiny_model: Model) -> None:
    cache = AnswerCache()
    refused("queries is a string", cache.predict, tiny_model, "CCO")
    refused("options is a dict", cache.predict, tiny_model, ["CCO"], {"n_best": 2})
    refused("options is given with", cache.predict, tiny_model, ["CCO"], OPTIONS, n_best=2)
    refused(TypeError, "did you mean n_best", cache.predict, tiny_model, ["CCO"], nbest=2)
    marked = ["CCO |r|"]
    found, plain = tiny_model.predict(marked, 2, max_length=9), tiny_model.predict(["CCO"], 2)
    for queries, note in ((1, "decoded as it is drawn, without |r|"), (0, found[0].note)):
        again = cache.predict(tiny_model, marked, n_best=2, max_length=9)
        assert again == found
        assert (again.statistics.queries, again[0].note, plain[0].note) == (queries, note, None)
    for canonical in (True, False):
        given: list[Any] = [None, "CCO", _WithoutText(), Path("CCO")]
        nothing, answer, *others = cache.predict(
            tiny_model, given, replace(OPTIONS, canonical_queries=canonical)
        )
        assert [each.error and each.error.split()[-1] for each in others] == [
            *("_WithoutText", "PosixPath")
        ]
        assert (nothing.error, answer.error) == ("expected a SMILES string, got NoneType", None)


def test_least_recently_used_answer_is_evicted_first(tiny_model: Model) -> None:
    cache = AnswerCache(capacity=2)
    for query in ("C", "N", "C", "O"):
        cache.predict(tiny_model, [query], OPTIONS)
    assert (cache.misses, len(cache)) == (3, 2)
    cache.predict(tiny_model, ["C", "O"], OPTIONS)
    assert cache.misses == 3
    cache.predict(tiny_model, ["N"], OPTIONS)
    assert cache.misses == 4
    assert len(cache.predict(tiny_model, ["C", "N", "O"], OPTIONS)) == 3  # more than its capacity
    assert len(cache) == 2


def test_processes_that_share_a_file_have_one_clock(tiny_model: Model, tmp_path: Path) -> None:
    first, second = (AnswerCache(capacity=2, path=tmp_path / "answers") for _ in range(2))
    for query in ("C", "N", "O", "CC", "CN"):
        first.predict(tiny_model, [query], OPTIONS)
    for _ in range(3):
        second.predict(tiny_model, ["CCC"], OPTIONS)
    assert (second.hits, second.misses) == (2, 1)
    first.close()
    second.close()


def test_processes_open_a_new_file_at_once_and_share_its_answers(
    tiny_model: Model, tmp_path: Path
) -> None:
    """SQLite does not wait for another process that chooses the log or makes the table."""
    count = 6
    together = get_context("fork").Barrier(count)

    def misses(queries: Iterator[str]) -> Iterator[int]:
        for query in queries:
            together.wait()
            with closing(AnswerCache(path=path)) as cache:
                cache.predict(tiny_model, [query], OPTIONS)
                yield cache.misses

    queries = ["C" * length for length in range(1, 1 + count)]
    expected = list(tiny_model.predict_stream(queries, OPTIONS))
    for number in range(3):
        path = tmp_path / str(number)
        assert list(in_processes(misses, queries, count, lambda _: -1, piece=1)) == [1] * count
        with closing(AnswerCache(path=path)) as cache:
            assert cache.predict(tiny_model, queries, OPTIONS) == expected
            assert cache.misses == 0


def test_invalid_capacity_and_paths_are_refused(tmp_path: Path) -> None:
    for capacity in (0, "answers.sqlite"):
        refused("capacity is .*", AnswerCache, capacity)
    letter, places = tmp_path / "letter.txt", tmp_path / "places.sqlite"
    letter.write_text("Dear reader, " * 100)
    with closing(sqlite3.connect(places)) as database, database:
        database.execute("create table places (url text)")
    for path in (letter, places):
        before = path.read_bytes()
        refused(f"^path is '{path}'", AnswerCache, path=path)
        assert path.read_bytes() == before
    refused(OSError, "absent", AnswerCache, path=tmp_path / "absent" / "answers.sqlite")


def test_a_damaged_answer_is_computed_again_and_reported_once(
    tiny_model: Model, tmp_path: Path
) -> None:
    path = tmp_path / "answers.sqlite"
    queries = [query for query in QUERIES if query != "junk"]
    expected = list(tiny_model.predict_stream(queries, OPTIONS))
    for changed, count in (
        ("answer = replace(answer, 'finished', 'x') || ' '", 3),
        ("answer = 'null'", 3),
        ("answer = 7", 3),
        ("answer = x'ff00'", 3),
        ("answer = replace(answer, '1', '2')", 1),
        ("checksum = x'00'", 3),
        ("checksum = 'text'", 3),
        # Answers of another query.
        ("(answer, checksum) = (select answer, checksum from answers order by key limit 1)", 2),
        ("used = 'never'", 0),
        ("used = 9223372036854775807", 0),
    ):
        cache = AnswerCache(path=path)
        cache.predict(tiny_model, queries, OPTIONS)
        cache.close()
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(f"update answers set {changed}")
        cache = AnswerCache(path=path)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = cache.predict(tiny_model, queries, OPTIONS)
        assert found == expected
        assert cache.damaged >= count, changed
        assert [f"{path}: an answer is damaged" in str(each.message) for each in caught] == [True][
            : cache.damaged
        ]
        again = cache.predict(tiny_model, queries, OPTIONS)  # damaged answers were replaced
        assert (again, cache.damaged) == (expected, cache.misses)
        cache.close()


def test_errors_are_not_stored(tiny_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory may suffice later, and the spelling of a molecule may be shorter."""

    def fail(*_: object) -> None:
        raise MemoryError("no memory")

    cache = AnswerCache()
    with monkeypatch.context() as patch:
        patch.setattr(QueryReader, "views", fail)
        assert cache.predict(tiny_model, ["CCO"], OPTIONS)[0].error == "MemoryError: no memory"
    assert cache.predict(tiny_model, ["CCO"], OPTIONS)[0].error is None
    long = "[H]C([H])([H])" + "C([H])([H])" * 198 + "C"
    for query, count in ((long, 0), ("C" * 200, 3)):
        (found,) = cache.predict(tiny_model, [query], OPTIONS)
        assert len(found.predictions) == count


def test_a_copied_cache_opens_the_same_file(tiny_model: Model, tmp_path: Path) -> None:
    for path, stored in ((None, 0), (tmp_path / "answers", 1)):
        cache = AnswerCache(7, path)
        cache.predict(tiny_model, ["CCO"], PredictOptions())
        again = pickle.loads(pickle.dumps(cache))
        assert (again.capacity, len(again)) == (7, stored)


def test_a_cache_that_is_dropped_is_closed() -> None:
    """From Python 3.13 on, a connection that is left open is a ResourceWarning."""
    cache = AnswerCache()
    database = cache._database
    del cache
    refused(sqlite3.ProgrammingError, "closed", database.execute, "select 1")
