"""Calls reuse caches; neither their content nor an interrupted call changes an answer."""

import os
import warnings
from collections.abc import Iterator

import pytest
import torch

from molspec.engine.cpu.engine import Buffers, NativeEngine
from molspec.prediction.model import Model
from tests import tiny

QUERIES = tiny.QUERIES[:7]
Answers = list[list[tuple[str, float]]]


def answers(model: Model, n_best: int = 3, batch_size: int = 2) -> Answers:
    results = model.predict(QUERIES, n_best=n_best, batch_size=batch_size, max_length=30)
    return [[(p.smiles, p.log_prob) for p in result.predictions] for result in results]


@pytest.fixture(scope="module")
def expected() -> Answers:
    return answers(tiny.model())


@pytest.fixture
def model() -> Model:
    return tiny.model()


def engine_of(model: Model) -> NativeEngine:
    assert isinstance(model.engine, NativeEngine)
    return model.engine


def idle_buffers(model: Model) -> list[Buffers]:
    return engine_of(model)._idle


def test_the_next_call_reuses_the_caches(model: Model, expected: Answers) -> None:
    assert answers(model) == expected
    (buffers,) = idle_buffers(model)
    addresses = [t.data_ptr() for t in (buffers.kv_cache, buffers.memory_cache, buffers.workspace)]
    assert answers(model) == expected
    (again,) = idle_buffers(model)
    assert again is buffers
    assert addresses == [
        t.data_ptr() for t in (again.kv_cache, again.memory_cache, again.workspace)
    ]


def test_content_of_caches_does_not_change_answers(model: Model, expected: Answers) -> None:
    answers(model, n_best=5, batch_size=7)
    (buffers,) = idle_buffers(model)
    buffers.kv_cache.fill_(torch.nan)
    buffers.memory_cache.fill_(torch.nan)
    buffers.workspace.fill_(255)
    assert answers(model) == expected


def test_source_that_is_too_long_takes_no_blocks(model: Model) -> None:
    longest = tiny.SPEC.max_positions
    session = engine_of(model).session(2)
    for length in (longest + 1, 2 * longest, 0):
        with pytest.raises(RuntimeError, match=f"source has {length} ids: expected 1 to {longest}"):
            session.encode([0, 1], [[4, 5], [4] * length])
        session.release(0)
        session.release(1)
    assert len(session._free_blocks) == len(session._buffers.memory_cache)
    assert len(set(session._free_blocks)) == len(session._free_blocks)


def test_failed_and_closed_calls_return_their_caches(model: Model, expected: Answers) -> None:
    def failing_queries() -> Iterator[str]:
        yield QUERIES[0]
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        list(model.predict_stream(failing_queries()))
    assert len(idle_buffers(model)) == 1
    stream = model.predict_stream(QUERIES)
    next(stream)
    assert not idle_buffers(model)
    stream.close()
    assert len(idle_buffers(model)) == 1
    assert answers(model) == expected


def test_the_pool_stores_the_last_returned_caches_within_its_bound() -> None:
    engine = engine_of(tiny.model())
    engine.most_kept_bytes = 1000
    sessions = [engine.session(0) for _ in range(4)]
    buffers_of_sessions = [session._buffers for session in sessions]
    for buffers, size in zip(buffers_of_sessions, (400, 500, 600, 1001), strict=True):
        buffers.workspace = torch.empty(size, dtype=torch.uint8)
        del sessions[0]
    assert engine.kept_bytes == 600
    last = engine.session(0)
    assert last._buffers is buffers_of_sessions[2]
    assert engine.kept_bytes == 0
    del last
    engine.free_caches()
    assert engine.kept_bytes == 0


def test_a_forked_child_has_its_own_caches(model: Model, expected: Answers) -> None:
    answers(model)
    stream = model.predict_stream(QUERIES)  # unfinished in the parent
    first = next(stream).predictions
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning about forking with threads
        child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # its OpenMP does not survive a fork
        os._exit(0 if answers(model) == expected else 1)
    assert answers(model) == expected
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    results = [first, *(result.predictions for result in stream)]
    assert results == [result.predictions for result in model.predict(QUERIES)]
