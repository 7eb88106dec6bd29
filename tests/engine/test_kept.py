"""Caches outlive a call; what is in them, who has them and how the call ended change nothing."""

from __future__ import annotations

import copy
import os
import pickle
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from molspec.engine.cpu.engine import Buffers, NativeEngine
from molspec.predictor import Model
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


def waiting(model: Model) -> list[Buffers]:
    return engine_of(model)._idle


def test_the_next_call_has_the_same_caches(model: Model, expected: Answers) -> None:
    assert answers(model) == expected
    (buffers,) = waiting(model)
    addresses = [t.data_ptr() for t in (buffers.kv_cache, buffers.memory_cache, buffers.workspace)]
    assert answers(model) == expected
    (again,) = waiting(model)
    assert again is buffers
    assert addresses == [
        t.data_ptr() for t in (again.kv_cache, again.memory_cache, again.workspace)
    ]


def test_what_is_in_them_counts_for_nothing(model: Model, expected: Answers) -> None:
    answers(model, n_best=5, batch_size=7)
    (buffers,) = waiting(model)
    buffers.kv_cache.fill_(torch.nan)
    buffers.memory_cache.fill_(torch.nan)
    buffers.workspace.fill_(255)
    assert answers(model) == expected


def test_sessions_at_the_same_time_share_nothing(model: Model) -> None:
    engine = engine_of(model)
    one, two = engine.session(1), engine.session(1)
    one.encode([0], [[4, 5, 6]])
    two.encode([0], [[4, 5, 6]])
    assert one._buffers is not two._buffers
    assert not waiting(model)
    del one
    assert len(waiting(model)) == 1
    del two
    assert len(waiting(model)) == 2


def test_a_call_that_fails_or_is_left_gives_them_back(model: Model, expected: Answers) -> None:
    def broken() -> Iterator[str]:
        yield QUERIES[0]
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        list(model.predict_stream(broken()))
    assert len(waiting(model)) == 1
    stream = model.predict_stream(QUERIES)
    next(stream)
    assert not waiting(model)
    stream.close()
    assert len(waiting(model)) == 1
    assert answers(model) == expected


def test_those_given_back_last_stay_within_the_bound() -> None:
    engine = engine_of(tiny.model())
    engine.most_kept_bytes = 1000
    sessions = [engine.session(0) for _ in range(4)]
    made = [session._buffers for session in sessions]
    for buffers, size in zip(made, (400, 500, 600, 1001), strict=True):
        buffers.workspace = torch.empty(size, dtype=torch.uint8)
        del sessions[0]
    assert engine.kept_bytes == 600
    last = engine.session(0)
    assert last._buffers is made[2]
    assert engine.kept_bytes == 0
    del last
    engine.free_caches()
    assert engine.kept_bytes == 0


def test_they_are_freed_on_request(model: Model, expected: Answers) -> None:
    answers(model)
    assert engine_of(model).kept_bytes > 0
    model.free_caches()
    assert engine_of(model).kept_bytes == 0
    assert answers(model) == expected


@pytest.mark.parametrize("through", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_begins_with_none(through: object, model: Model, expected: Answers) -> None:
    assert callable(through)
    size = len(pickle.dumps(model))
    answers(model)
    assert len(pickle.dumps(model)) == size
    copied = through(model)
    assert waiting(copied) == []
    assert answers(copied) == expected
    assert len(waiting(model)) == 1


def test_threads_do_not_share_them(model: Model, expected: Answers) -> None:
    with ThreadPoolExecutor(4) as callers:
        found = list(callers.map(lambda _: answers(model), range(12)))
    assert found == [expected] * 12
    assert 1 <= len(waiting(model)) <= 4


def test_a_forked_child_has_its_own(model: Model, expected: Answers) -> None:
    answers(model)
    stream = model.predict_stream(QUERIES)  # under way in the parent
    first = next(stream).predictions
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forking beside threads
        child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # its OpenMP does not survive a fork
        os._exit(0 if answers(model) == expected else 1)
    assert answers(model) == expected
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    results = [first, *(result.predictions for result in stream)]
    assert results == [result.predictions for result in model.predict(QUERIES)]


def test_a_loop_in_inference_mode_leaves_them_to_one_outside(model: Model) -> None:
    outcomes = []
    for inside in (True, False):
        with torch.inference_mode(inside):
            session = engine_of(model).session(1)
            session.encode([0], [[4, 5, 6] * 20])
            node = torch.tensor([[4, 0, 0, 0]], dtype=torch.int32).numpy()
            slots = torch.tensor([0], dtype=torch.int32).numpy()
            outcomes.append(session.step(node, slots, 1)[0].tolist())
            del session
    assert outcomes[0] == outcomes[1]
