"""Native rounds equal rounds in which Python calls plan, step and advance."""

import signal
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from molspec._native import LIMITS, Batch, BeamSpec, Step
from molspec.engine import ops
from molspec.engine.cpu.engine import NativeEngine, NativeSession
from molspec.prediction.decoder import Decoder
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import Result
from tests import tiny
from tests.drafting.drafters import Silent

CHOICES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "greedy without drafts": {"drafter": "none"},
    "standard": {"n_best": 5, "beam": "standard"},
    "exact": {"n_best": 5, "beam": "exact", "drafter": "tree"},
    "separate": {"n_best": 4, "finished": "separate"},
    "SBS": {"n_best": 3, "beam": "sbs"},
    "samples": {"samples": 4, "seed": 3},
}


@pytest.fixture(scope="module", params=["one", "ensemble"])
def one_or_several(request: pytest.FixtureRequest, model: Model) -> Model:
    return model if request.param == "one" else Model(tiny.checkpoint(), others=tiny.others())


def predict_with(model: Model, batch_size: int, choices: Sequence[dict[str, Any]]) -> list[Result]:
    """Answers to the tests' queries, which take the options of `choices` in turn."""
    decoder = Decoder(model, batch_size)
    tickets = [
        decoder.submit(query, PredictOptions(**choices[i % len(choices)], max_length=40))
        for i, query in enumerate(tiny.QUERIES)
    ]
    answers: dict[int, Result] = {}
    while decoder.live_count:
        answers.update(decoder.step())
    return [answers[ticket] for ticket in tickets]


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("choice", [*CHOICES, "all of them"])
def test_native_rounds_equal_rounds_from_python(
    choice: str, batch_size: int, one_or_several: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = one_or_several
    choices = [{"drafter": Silent()}, *CHOICES.values()] if choice not in CHOICES else None
    choices = choices or [CHOICES[choice]]
    found = predict_with(model, batch_size, choices)
    monkeypatch.setattr(NativeSession, "prepared_step", lambda _: None)  # as for other sessions
    expected = predict_with(model, batch_size, choices)
    for native, stepped in zip(found, expected, strict=True):
        assert (native.predictions, native.error) == (stepped.predictions, stepped.error)
        assert native.statistics is not None
        assert stepped.statistics is not None
        assert native.statistics.nodes == stepped.statistics.nodes
        assert native.statistics.decoder_calls == stepped.statistics.decoder_calls


@pytest.fixture
def python_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The node count of every step that Python calls."""
    counts: list[int] = []
    step = NativeSession.step

    def counting_step(self: NativeSession, nodes: Any, *arguments: Any) -> Any:
        counts.append(len(nodes))
        return step(self, nodes, *arguments)

    monkeypatch.setattr(NativeSession, "step", counting_step)
    return counts


def test_python_steps_while_buffers_are_too_small(python_steps: list[int]) -> None:
    model = tiny.model()  # with its own buffers
    query, options = tiny.QUERIES[6], {"n_best": 5, "beam": "standard", "max_length": 40}
    first = model.predict([query], **options)
    assert first.statistics.decoder_calls == 40
    assert 1 <= len(python_steps) <= 10
    python_steps.clear()
    again = model.predict([query], **options)
    assert again[0].predictions == first[0].predictions
    assert python_steps == []


def test_python_steps_with_an_external_drafter(python_steps: list[int], model: Model) -> None:
    results = model.predict(["CCO"], drafter=Silent(), max_length=9)
    assert len(python_steps) == results.statistics.decoder_calls


def session_after_one_step(model: Model) -> tuple[NativeSession, Batch]:
    """A session and a batch after a query's first step, with space for the next one."""
    assert isinstance(model.engine, NativeEngine)
    session, batch = model.engine.session(1), Batch(1, model.context.guess)
    spec = BeamSpec(beam_size=3, n_best=3, max_length=9)
    session.encode([0], [[1, 4, 5, 2]])
    batch.start(0, spec, [4, 5])
    batch.plan()
    batch.advance(session.step(batch.nodes, batch.path_slots, batch.block_count))
    return session, batch


def test_native_rounds_report_the_errors_of_the_operator(model: Model) -> None:
    session, batch = session_after_one_step(model)
    session._memories[0, 1] = 1_000_000
    batch.plan()
    with pytest.raises(RuntimeError) as expected:
        session.step(batch.nodes, batch.path_slots, batch.block_count)
    with pytest.raises(RuntimeError, match="1000000") as found:
        batch.run(session.prepared_step())
    assert str(found.value) in str(expected.value)


def prepare_step_of(session: NativeSession, prepared: torch.Tensor) -> None:
    packed, own = session._packed, session._buffers
    nodes = torch.empty((0, 4), dtype=torch.int32)
    tree = (nodes, nodes[:, 0], own.memories, own.memory_cache, own.kv_cache)
    results = (own.log_probs, torch.empty(0, 0), prepared)
    model = (packed.weights, packed.table)
    torch.ops.molspec.prepare_step(*model, *tree, own.workspace, *results)


def test_prepared_steps_check_the_rows_of_log_probs() -> None:
    session, batch = session_after_one_step(tiny.model())  # with its own buffers
    prepared = torch.empty(LIMITS["prepared_step_bytes"], dtype=torch.uint8)
    prepare_step_of(session, prepared)
    step = Step(
        function=ops._STEP_FUNCTION,
        prepared=prepared.numpy(),
        log_probs=np.zeros((9, tiny.SPEC.target_vocab_size), np.float32),
        block_count=len(session._buffers.kv_cache),
        tensors=session,
    )
    with pytest.raises(RuntimeError, match=r"^log_probs has 1 rows: expected 2$"):
        batch.run(step)


def test_prepare_step_checks_the_size_of_its_result(model: Model) -> None:
    session, _ = session_after_one_step(model)
    with pytest.raises(RuntimeError, match="prepared has 7 bytes: expected 256"):
        prepare_step_of(session, torch.empty(7, dtype=torch.uint8))


@pytest.mark.parametrize("choice", CHOICES)
def test_native_rounds_continue_until_a_query_is_answered(choice: str, model: Model) -> None:
    expected = predict_with(model, 3, [CHOICES[choice]])
    decoder = Decoder(model, 3)
    options = PredictOptions(**CHOICES[choice], max_length=40)
    tickets = [decoder.submit(query, options) for query in tiny.QUERIES]
    answers: dict[int, Result] = {}
    calls = 0
    while decoder.live_count:
        answers.update(decoder.step(until_answered=True))
        calls += 1
    assert [answers[ticket].predictions for ticket in tickets] == [r.predictions for r in expected]
    assert calls <= 2 * len(tickets)  # a call ends early if a buffer has to grow
    assert decoder.statistics.decoder_calls > 2 * calls


def interrupted(decoder: Decoder) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    while decoder.live_count:
        decoder.step(until_answered=True)


def test_native_rounds_can_be_interrupted() -> None:
    model = tiny.model()
    decoder = Decoder(model, 1)
    options = PredictOptions(n_best=100, beam="standard", max_length=tiny.SPEC.max_positions)
    decoder.submit(tiny.QUERIES[6], options)
    old_handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted(decoder)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)
    assert decoder.live_count == 1
