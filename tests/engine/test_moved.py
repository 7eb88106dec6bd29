"""Models go to other processes as copies, and a tensor that moved all the same is found."""

import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch

from molspec import checkpoints
from molspec.drafting import HeadsDraft, ModelDraft, SpecDraft
from molspec.engine.cpu.engine import NativeEngine
from molspec.prediction.model import Model
from tests import tiny

Answers = list[list[tuple[str, float]]]

DRAFTERS = {None: tiny.checkpoint, "heads": tiny.with_heads, "spec": tiny.with_spec_drafter}


def answers(model: Model, drafter: Any = None) -> Answers:
    results = model.predict(tiny.QUERIES[:5], max_length=30, drafter=drafter)
    return [[(p.smiles, p.log_prob) for p in result.predictions] for result in results]


def tensors(value: Any, seen: set[int]) -> list[torch.Tensor]:
    """Every tensor that an object refers to."""
    if id(value) in seen or isinstance(value, type):
        return []
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        return [value]
    parts = list(value.values()) if isinstance(value, dict) else []
    parts += list(value) if isinstance(value, list | tuple) else []
    parts += list(vars(value).values()) if hasattr(value, "__dict__") else []
    return [each for part in parts for each in tensors(part, seen)]


def sent(value: Any) -> Any:
    """What a process would receive. No storage of ours moves."""
    held = tensors(value, set())
    before = [each.data_ptr() for each in held]
    received = pickle.loads(ForkingPickler.dumps(value))
    assert [each.data_ptr() for each in held] == before
    assert held
    assert not any(each.is_shared() for each in (*held, *tensors(received, set())))
    return received


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_model_that_has_answered_is_sent_as_a_copy(drafter: Any) -> None:
    model = Model(DRAFTERS[drafter]())
    expected = answers(model, drafter)
    received = sent(model)
    assert answers(received, drafter) == expected
    assert answers(model, drafter) == expected
    assert answers(sent(received), drafter) == expected


def parts(path: Path) -> dict[str, Any]:
    """Further objects with tensors, all of which have been used."""
    heads, spec = tiny.with_heads(), tiny.with_spec_drafter()
    with_heads, with_spec_drafter = Model(heads), Model(spec)
    answers(with_heads, HeadsDraft())
    answers(with_spec_drafter, SpecDraft())
    checkpoints.write(tiny.checkpoint(), path)
    answers(with_heads, ModelDraft(path))
    assert isinstance(with_heads.engine, NativeEngine)
    return {
        "engine": with_heads.engine,
        "packed model": with_heads.engine.packed,
        "checkpoint": heads,
        "head weights": heads.heads,
        "heads": with_heads.context.heads,
        "Spec-Drafter": with_spec_drafter.context.spec_drafter,
        "drafter's weights": spec.spec_drafter,
    }


def test_parts_are_sent_as_copies(tmp_path: Path) -> None:
    for value in parts(tmp_path / "model").values():
        sent(value)


def _answers_there(model: Model) -> Answers:
    return answers(model)


def test_a_worker_gives_the_same_answers() -> None:
    model = tiny.model()
    expected = answers(model)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(_answers_there, model).result() == expected
    assert answers(model) == expected


def _share_weights(engine: NativeEngine) -> None:
    engine.packed.weights.share_memory_()


def _share_table(engine: NativeEngine) -> None:
    engine.packed.table.share_memory_()


def _share_caches(engine: NativeEngine) -> None:
    for buffers in engine._idle:
        for each in tensors(buffers, {id(engine.packed)}):
            each.share_memory_()


@pytest.mark.parametrize("move", [_share_weights, _share_table, _share_caches])
def test_a_step_finds_what_has_moved(move: Callable[[NativeEngine], None]) -> None:
    model = tiny.model()
    expected = answers(model)
    assert isinstance(model.engine, NativeEngine)
    (before,) = model.engine._idle
    old = before.prepared_step()
    assert before.prepared_step() is old
    move(model.engine)
    assert before.prepared_step() is not old
    garbage = [torch.full((100_000,), 255, dtype=torch.uint8) for _ in range(50)]
    assert answers(model) == expected
    del garbage
