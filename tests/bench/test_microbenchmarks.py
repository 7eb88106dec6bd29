"""The microbenchmarks run, and their counts of work are right."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

import decoder_step
from acceptance_length import cases as acceptance_cases
from case import Case, Work, run, table
from expand_drafts import cases as expand_cases
from left_pad import cases as left_pad_cases
from models import batch, packed_model, shapes
from molspec.engine import ops
from molspec.model.spec import ModelSpec
from propose import cases as propose_cases
from select_hypotheses import cases as select_cases
from tests import reference
from timing import measure

SPEC = ModelSpec(
    9, 9, d_model=32, head_count=2, encoder_layers=1, decoder_layers=2, feed_forward=48
)


@pytest.mark.parametrize(
    "cases", [acceptance_cases, expand_cases, left_pad_cases, propose_cases, select_cases]
)
def test_timed_operators_agree_with_their_twins(cases: object) -> None:
    for case in islice(cases(), 2):
        if case.reference is not None:
            torch.testing.assert_close(case.native(), case.reference(), atol=0, rtol=0)
        measured = run(case, rounds=1)
        assert measured.native.seconds > 0


def test_a_benchmark_step_equals_reference() -> None:
    step = batch(packed_model(SPEC, torch.float32), node_count=6)
    ops.decoder_step(*step.step_arguments)
    log_probs = step.log_probs.clone()
    step.log_probs.fill_(float("nan"))
    reference.decoder_step(*step.step_arguments)
    torch.testing.assert_close(log_probs, step.log_probs, atol=1e-5, rtol=1e-5)
    positions = decoder_step.batch_positions(6)
    assert step.nodes[:, 1].tolist() == positions.tolist()


def test_weight_count_covers_the_weights_that_a_step_reads() -> None:
    shapes = SPEC.weight_shapes()
    matrices = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    read = {
        name: shape[0] * shape[1]
        for name, shape in matrices.items()
        if name.startswith(("decoder.", "output"))
        and not name.endswith(("cross_attention.key.weight", "cross_attention.value.weight"))
    }
    assert decoder_step.weight_count(SPEC) == sum(read.values())


def test_rates_are_work_per_time_and_in_the_table() -> None:
    def call() -> None:
        sum(range(1000))

    case = Case("op", "size", call, call, Work(2, 6, (4, call), (3, call)))
    measured = run(case, rounds=3)
    assert measured.rates is not None
    assert measured.rates.operations_rate == pytest.approx(3 * measured.rates.bytes_rate)
    _, line = table([measured])
    assert line.startswith("op")
    assert line.count("%") == 2


def test_rounds_alternate() -> None:
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    timings = measure(calls, rounds=4, round_seconds=0)
    assert order[-8:] == list("abababab")
    assert [len(timing.rounds) for timing in timings.values()] == [4, 4]


def test_every_bundled_model_has_a_shape() -> None:
    assert [name for name, _ in shapes()] == ["product", "retro"]
