"""Dropout on a CPU acts as `torch.nn.functional.dropout`, with other random numbers."""

import pytest
import torch

from molspec.model.dropout import drop

SHAPES = [(1_001, 333), (0,), (3, 0, 2), (), (1,), (5,)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("probability", [0.01, 0.1, 0.5, 0.9])
def test_dropout_matches_the_probability_and_preserves_the_mean(
    dtype: torch.dtype, probability: float
) -> None:
    torch.manual_seed(0)
    hidden = torch.ones(1_000, 1_000, dtype=dtype)
    dropped = drop(hidden, probability)
    share = (dropped == 0).double().mean().item()
    deviation = (probability * (1 - probability) / hidden.numel()) ** 0.5
    assert abs(share - probability) < 5 * deviation + 0.5 / 65_536
    remaining = dropped[dropped != 0]
    assert (remaining == remaining[0]).all()
    assert remaining[0].item() == pytest.approx(1 / (1 - probability), rel=5e-3)


def test_elements_are_dropped_independently() -> None:
    torch.manual_seed(0)
    dropped = (drop(torch.ones(1 << 20), 0.5) == 0).double() - 0.5
    for distance in (1, 2, 3, 4, 5, 8, 64):  # four neighbours come from one draw
        correlation = 4 * (dropped[:-distance] * dropped[distance:]).mean().item()
        assert abs(correlation) < 5 / (1 << 10)


@pytest.mark.parametrize("shape", SHAPES)
def test_output_has_the_shape_and_dtype_of_the_input(shape: tuple[int, ...]) -> None:
    hidden = torch.randn(shape)
    assert drop(hidden, 0.3).shape == shape
    assert drop(hidden, 0.3).dtype == hidden.dtype


def test_a_seed_gives_one_draw_also_for_strided_input() -> None:
    hidden = torch.randn(40, 30)
    torch.manual_seed(3)
    strided, second = drop(hidden.T, 0.3), drop(hidden.T, 0.3)
    torch.manual_seed(3)
    assert torch.equal(strided, drop(hidden.T.contiguous(), 0.3))
    assert not torch.equal(strided, second)
    assert drop(hidden, 1 - 1e-9).isfinite().all()


def test_gradient_passes_through_remaining_elements() -> None:
    hidden = torch.randn(100, 100, requires_grad=True)
    dropped = drop(hidden, 0.4)
    dropped.sum().backward()
    assert hidden.grad is not None
    torch.testing.assert_close(hidden.grad * hidden, dropped)
    assert 0.5 < (hidden.grad != 0).double().mean().item() < 0.7


@pytest.mark.parametrize(("probability", "training"), [(0.0, True), (0.5, False)])
def test_nothing_is_drawn_if_nothing_is_dropped(probability: float, training: bool) -> None:
    hidden, state = torch.randn(10), torch.get_rng_state()
    assert drop(hidden, probability, training) is hidden
    assert torch.equal(torch.get_rng_state(), state)


def test_default_device_of_torch_does_not_matter() -> None:
    hidden = torch.randn(1_000)
    with torch.device("meta"):
        assert drop(hidden, 0.5).device == hidden.device
