"""Dropout on a CPU: what `torch.nn.functional.dropout` promises, drawn in another way."""

from __future__ import annotations

import pytest
import torch

from molspec.model.dropout import drop

ANY_SHAPE = [(1_001, 333), (0,), (3, 0, 2), (), (1,), (5,)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("probability", [0.01, 0.1, 0.5, 0.9])
def test_drops_with_the_probability_and_keeps_the_mean(
    dtype: torch.dtype, probability: float
) -> None:
    torch.manual_seed(0)
    hidden = torch.ones(1_000, 1_000, dtype=dtype)
    dropped = drop(hidden, probability)
    share = (dropped == 0).double().mean().item()
    deviation = (probability * (1 - probability) / hidden.numel()) ** 0.5
    assert abs(share - probability) < 5 * deviation + 0.5 / 65_536
    kept = dropped[dropped != 0]
    assert (kept == kept[0]).all()
    assert kept[0].item() == pytest.approx(1 / (1 - probability), rel=5e-3)


def test_draws_elements_independently() -> None:
    torch.manual_seed(0)
    dropped = (drop(torch.ones(1 << 20), 0.5) == 0).double() - 0.5
    for distance in (1, 2, 3, 4, 5, 8, 64):  # four neighbours come from one draw
        correlation = 4 * (dropped[:-distance] * dropped[distance:]).mean().item()
        assert abs(correlation) < 5 / (1 << 10)


@pytest.mark.parametrize("shape", ANY_SHAPE)
def test_any_shape(shape: tuple[int, ...]) -> None:
    hidden = torch.randn(shape)
    assert drop(hidden, 0.3).shape == shape
    assert drop(hidden, 0.3).dtype == hidden.dtype


def test_strided_input_drops_like_a_contiguous_one() -> None:
    hidden = torch.randn(40, 30)
    torch.manual_seed(3)
    strided = drop(hidden.T, 0.3)
    torch.manual_seed(3)
    assert torch.equal(strided, drop(hidden.T.contiguous(), 0.3))


def test_gradient_passes_through_what_is_kept() -> None:
    hidden = torch.randn(100, 100, requires_grad=True)
    dropped = drop(hidden, 0.4)
    dropped.sum().backward()
    assert hidden.grad is not None
    torch.testing.assert_close(hidden.grad * hidden, dropped)
    assert 0.5 < (hidden.grad != 0).double().mean().item() < 0.7


def test_same_seed_same_draw() -> None:
    hidden = torch.randn(1_000)
    torch.manual_seed(7)
    first, second = drop(hidden, 0.5), drop(hidden, 0.5)
    torch.manual_seed(7)
    assert torch.equal(drop(hidden, 0.5), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("probability", "training"), [(0.0, True), (0.5, False)])
def test_nothing_is_drawn_where_nothing_is_dropped(probability: float, training: bool) -> None:
    hidden, state = torch.randn(10), torch.get_rng_state()
    assert drop(hidden, probability, training) is hidden
    assert torch.equal(torch.get_rng_state(), state)


def test_almost_every_element_dropped_leaves_finite_numbers() -> None:
    assert drop(torch.randn(1_000), 1 - 1e-9).isfinite().all()
