"""Rounds with nobody between plan, step and advance are the rounds of the parts."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from molspec import ops
from molspec._native import LIMITS, Batch, BeamSpec, Step
from molspec.decoder import Decoder
from molspec.decoding.drafter import DraftTree, Path
from molspec.engine.cpu.engine import NativeEngine, NativeSession
from molspec.options import PredictOptions
from molspec.predictor import Model
from molspec.results import Result
from tests import tiny

CHOICES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "greedy without drafts": {"drafter": "none"},
    "standard": {"n_best": 5, "beam": "standard"},
    "exact": {"n_best": 5, "beam": "exact", "drafter": "tree"},
    "separate": {"n_best": 4, "finished": "separate"},
    "SBS": {"n_best": 3, "beam": "sbs"},
    "samples": {"samples": 4, "seed": 3},
}


class Silent:
    """A drafter that proposes nothing."""

    def start(self, query: int, source_ids: Sequence[int]) -> None:
        """Begin a query."""

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        """No drafts."""
        return [DraftTree() for _ in paths]

    def release(self, query: int) -> None:
        """Forget a query."""


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny.model()


def asked(model: Model, batch_size: int, choices: Sequence[dict[str, Any]]) -> list[Result]:
    """Answers to queries that take turns in what is asked for."""
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
def test_answers_and_counts_are_those_of_the_parts(
    choice: str, batch_size: int, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    choices = [{"drafter": Silent()}, *CHOICES.values()] if choice not in CHOICES else None
    choices = choices or [CHOICES[choice]]
    found = asked(model, batch_size, choices)
    monkeypatch.setattr(NativeSession, "prepared_step", lambda _: None)  # as other sessions
    expected = asked(model, batch_size, choices)
    for mine, other in zip(found, expected, strict=True):
        assert (mine.predictions, mine.error) == (other.predictions, other.error)
        assert mine.statistics is not None
        assert other.statistics is not None
        assert mine.statistics.nodes == other.statistics.nodes
        assert mine.statistics.decoder_calls == other.statistics.decoder_calls


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Nodes of every step that Python calls."""
    counts: list[int] = []
    step = NativeSession.step

    def counted(self: NativeSession, nodes: Any, *arguments: Any) -> Any:
        counts.append(len(nodes))
        return step(self, nodes, *arguments)

    monkeypatch.setattr(NativeSession, "step", counted)
    return counts


def test_python_steps_where_there_is_no_room_yet(called: list[int]) -> None:
    model = tiny.model()  # with buffers of its own
    query, options = tiny.QUERIES[6], {"n_best": 5, "beam": "standard", "max_length": 40}
    first = model.predict([query], **options)
    assert first.statistics.decoder_calls == 40
    assert 1 <= len(called) <= 10
    called.clear()
    again = model.predict([query], **options)
    assert again[0].predictions == first[0].predictions
    assert called == []


def test_python_steps_where_somebody_else_drafts(called: list[int], model: Model) -> None:
    results = model.predict(["CCO"], drafter=Silent(), max_length=9)
    assert len(called) == results.statistics.decoder_calls


def begun(model: Model) -> tuple[NativeSession, Batch]:
    """A session and a batch with a query under way, and room for its next step."""
    assert isinstance(model.engine, NativeEngine)
    session, batch = model.engine.session(1), Batch(1, model.context.guess)
    spec = BeamSpec(beam_size=3, n_best=3, max_length=9)
    session.encode([0], [[1, 4, 5, 2]])
    batch.start(0, spec, [4, 5])
    batch.plan()
    batch.advance(session.step(batch.nodes, batch.path_slots, batch.block_count))
    return session, batch


def test_what_is_wrong_is_said_as_by_the_operator(model: Model) -> None:
    session, batch = begun(model)
    session._memories[0, 1] = 1_000_000
    batch.plan()
    with pytest.raises(RuntimeError) as expected:
        session.step(batch.nodes, batch.path_slots, batch.block_count)
    with pytest.raises(RuntimeError, match="1000000") as found:
        batch.run(session.prepared_step())
    assert str(found.value) in str(expected.value)


def prepared_by(session: NativeSession, prepared: torch.Tensor) -> None:
    buffers = session._buffers
    nodes = torch.empty((0, 4), dtype=torch.int32)
    torch.ops.molspec.prepare_step(
        session._packed.weights,
        session._packed.table,
        nodes,
        nodes[:, 0],
        buffers.memories,
        buffers.memory_cache,
        buffers.kv_cache,
        buffers.workspace,
        buffers.log_probs,
        torch.empty(0, 0),
        prepared,
    )


def test_what_was_prepared_knows_its_room(model: Model) -> None:
    session, batch = begun(model)
    prepared = torch.empty(LIMITS["prepared_step_bytes"], dtype=torch.uint8)
    prepared_by(session, prepared)
    step = Step(
        function=ops._STEP_FUNCTION,
        prepared=prepared.numpy(),
        log_probs=np.zeros((9, tiny.SPEC.target_vocab_size), np.float32),
        block_count=len(session._buffers.kv_cache),
        tensors=session,
    )
    with pytest.raises(RuntimeError, match=r"^log_probs has 1 rows: expected 2$"):
        batch.run(step)


def test_prepared_bytes_have_their_size(model: Model) -> None:
    session, _ = begun(model)
    with pytest.raises(RuntimeError, match="prepared has 7 bytes: expected 256"):
        prepared_by(session, torch.empty(7, dtype=torch.uint8))


@pytest.mark.parametrize("choice", CHOICES)
def test_rounds_go_on_by_themselves_until_a_query_is_answered(choice: str, model: Model) -> None:
    expected = asked(model, 3, [CHOICES[choice]])
    decoder = Decoder(model, 3)
    options = PredictOptions(**CHOICES[choice], max_length=40)
    tickets = [decoder.submit(query, options) for query in tiny.QUERIES]
    answers: dict[int, Result] = {}
    turns = 0
    while decoder.live_count:
        answers.update(decoder.step(until_answered=True))
        turns += 1
    assert [answers[ticket].predictions for ticket in tickets] == [r.predictions for r in expected]
    assert turns <= 2 * len(tickets)  # a turn ends early where a buffer has to grow
    assert decoder.statistics.decoder_calls > 2 * turns


def finish(decoder: Decoder) -> None:
    while decoder.live_count:
        decoder.step(until_answered=True)


def test_rounds_that_go_on_by_themselves_can_be_interrupted() -> None:
    model = tiny.model()
    decoder = Decoder(model, 1)
    options = PredictOptions(n_best=100, beam="standard", max_length=tiny.SPEC.max_positions)
    decoder.submit(tiny.QUERIES[6], options)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        with pytest.raises(KeyboardInterrupt):
            finish(decoder)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert decoder.live_count == 1
