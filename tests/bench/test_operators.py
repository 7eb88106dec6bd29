"""The timed operators agree with their twins, and their counts of work are right."""

from importlib import import_module
from itertools import islice

import pytest
import torch

import decoder_step
from case import Case, Work, run, table
from models import batch, packed_model, shapes
from molspec.engine import ops
from molspec.model.spec import ModelSpec

SPEC = ModelSpec(
    9, 9, d_model=32, head_count=2, encoder_layers=1, decoder_layers=2, feed_forward=48
)


@pytest.mark.parametrize("operator", ["acceptance_length", "expand_drafts", "left_pad", "propose"])
def test_timed_operators_agree_with_their_twins(operator: str) -> None:
    for case in islice(import_module(operator).cases(), 2):
        if case.reference is not None:
            torch.testing.assert_close(case.native(), case.reference(), atol=0, rtol=0)
        assert run(case, rounds=1).native.seconds > 0


def test_a_benchmark_step_evaluates_its_nodes() -> None:
    step = batch(packed_model(SPEC, torch.float32), node_count=6)
    ops.decoder_step(*step.step_arguments)
    assert step.log_probs.isfinite().all()
    assert step.nodes[:, 1].tolist() == decoder_step.batch_positions(6).tolist()
    assert [name for name, _ in shapes()] == ["product", "retro"]


def test_weight_count_covers_the_weights_that_a_step_reads() -> None:
    projected = ("cross_attention.key.weight", "cross_attention.value.weight")
    matrices = (
        shape
        for name, shape in SPEC.weight_shapes().items()
        if name.startswith(("decoder.", "output")) and not name.endswith(projected)
    )
    read = sum(shape[0] * shape[1] for shape in matrices if len(shape) == 2)
    assert decoder_step.weight_count(SPEC) == read


def test_rates_are_work_per_time_and_in_the_table() -> None:
    def call() -> None:
        sum(range(1000))

    measured = run(Case("op", "size", call, call, Work(2, 6, (4, call), (3, call))), rounds=3)
    assert measured.rates is not None
    assert measured.rates.operations_rate == pytest.approx(3 * measured.rates.bytes_rate)
    _, line = table([measured])
    assert line.startswith("op")
    assert line.count("%") == 2
