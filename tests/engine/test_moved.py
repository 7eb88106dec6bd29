"""Models go to other processes as copies, and a tensor that moved all the same is found."""

import copy
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

#: Models by what they hold, each with the drafter that uses it.
MODELS: dict[str, tuple[Callable[[], Model], Any]] = {
    "float32": (tiny.model, None),
    "int8": (lambda: tiny.model(dtype="int8"), None),
    "ensemble": (lambda: Model(tiny.checkpoint(), others=tiny.others()), None),
    "heads": (lambda: Model(tiny.with_heads()), "heads"),
    "spec": (lambda: Model(tiny.with_spec_drafter()), "spec"),
}


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


@pytest.mark.parametrize("copied", [sent, copy.deepcopy])
@pytest.mark.parametrize("kind", MODELS)
def test_a_model_that_has_answered_is_copied_without_its_caches(
    kind: str, copied: Callable[[Any], Model]
) -> None:
    make, drafter = MODELS[kind]
    model = make()
    expected = answers(model, drafter)
    model.free_caches()
    size = len(pickle.dumps(model))
    assert answers(model, drafter) == expected
    assert len(pickle.dumps(model)) == size
    received = copied(model)
    assert answers(received, drafter) == expected
    assert answers(model, drafter) == expected
    assert answers(copied(received), drafter) == expected


def test_parts_are_sent_as_copies(tmp_path: Path) -> None:
    heads, spec = tiny.with_heads(), tiny.with_spec_drafter()
    model, other = Model(heads), Model(spec)
    checkpoints.write(tiny.checkpoint(), tmp_path / "model")
    for used, drafter in ((model, HeadsDraft()), (other, SpecDraft())):
        answers(used, drafter)
    answers(model, ModelDraft(tmp_path / "model"))
    assert isinstance(model.engine, NativeEngine)
    for part in (model.engine, model.engine.packed, heads, heads.heads, spec.spec_drafter):
        sent(part)
    for context in (model.context, other.context):
        sent(context.heads or context.spec_drafter)


def test_a_worker_gives_the_same_answers() -> None:
    model = tiny.model()
    expected = answers(model)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(answers, model).result() == expected
    assert answers(model) == expected


MOVED: dict[str, Callable[[NativeEngine], list[torch.Tensor]]] = {
    "weights": lambda engine: [engine.packed.weights],
    "table": lambda engine: [engine.packed.table],
    "caches": lambda engine: tensors(engine._idle, {id(engine.packed)}),
}


@pytest.mark.parametrize("part", MOVED)
def test_a_step_finds_what_has_moved(part: str) -> None:
    model = tiny.model()
    expected = answers(model)
    assert isinstance(model.engine, NativeEngine)
    (before,) = model.engine._idle
    old = before.prepared_step()
    assert before.prepared_step() is old
    for each in MOVED[part](model.engine):
        each.share_memory_()
    assert before.prepared_step() is not old
    garbage = [torch.full((100_000,), 255, dtype=torch.uint8) for _ in range(50)]
    assert answers(model) == expected
    del garbage
