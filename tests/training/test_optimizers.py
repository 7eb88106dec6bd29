"""The parameters of each optimiser; Muon's steps are those of PyTorch's, except for rounding."""

import pytest
import torch
from torch import nn

from molspec.model.spec import ModelSpec
from molspec.model.transformer import Transformer
from molspec.training import TrainConfig, optimizers as module
from molspec.training.optimizers import Muon, optimizers, set_learning_rate

SPEC = ModelSpec(9, 9, d_model=16, head_count=2, encoder_layers=1, decoder_layers=1, feed_forward=8)


@pytest.mark.parametrize("name", ["muon", "adamw"])
def test_every_parameter_has_one_optimizer_and_learns(name: str) -> None:
    torch.manual_seed(1)
    model = Transformer(SPEC, 0.0, pad_id=0)
    created = optimizers(model, TrainConfig(steps=1, optimizer=name))  # type: ignore[arg-type]
    parameters = [p for optimizer in created for g in optimizer.param_groups for p in g["params"]]
    assert sorted(map(id, parameters)) == sorted(map(id, model.parameters()))
    before = [parameter.detach().clone() for parameter in parameters]
    ids = torch.randint(1, 9, (4, 7), generator=torch.Generator().manual_seed(1))
    torch.autograd.backward(model(ids, ids).square().mean())
    set_learning_rate(created, 0.5)
    for optimizer in created:
        optimizer.step()
    for parameter, old in zip(parameters, before, strict=True):
        assert parameter.grad is not None
        assert torch.equal(parameter, old) == (not parameter.grad.any())


def test_muon_has_only_the_matrices_of_layers() -> None:
    model = Transformer(SPEC, 0.0, pad_id=0)
    muon, adamw = optimizers(model, TrainConfig(steps=1))
    matrices = {id(part.weight) for part in model.modules() if isinstance(part, nn.Linear)}
    assert {id(item) for group in muon.param_groups for item in group["params"]} == matrices
    # 4 of each of 3 attentions, 2 of each of 2 feed-forward layers
    assert len(matrices) == 16
    decays = [group["weight_decay"] for group in adamw.param_groups]
    assert decays == [0.01, 0.0]
    assert all(item.dim() == 1 for item in adamw.param_groups[1]["params"])


SHAPES = [(1, 1), (1, 8), (8, 1), (16, 16), (48, 16), (16, 48)]


def _parameters(seed: int) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_steps_equal_those_of_pytorch(dtype: torch.dtype) -> None:
    initial, ours, theirs = (_parameters(1) for _ in range(3))
    pairs = [
        (ours, Muon(ours, 0.01, 0.1, dtype)),
        (theirs, torch.optim.Muon(theirs, 0.01, 0.1, adjust_lr_fn="match_rms_adamw")),
    ]
    for step in range(5):
        for parameters, optimizer in pairs:
            for parameter, gradient in zip(parameters, _parameters(2 + step), strict=True):
                parameter.grad = gradient.detach().clone()
            optimizer.step()
    for first, ours_now, theirs_now in zip(initial, ours, theirs, strict=True):
        change, expected = ours_now - first, theirs_now - first
        assert (change - expected).norm() < 0.02 * expected.norm()
    # our optimiser loads the state of PyTorch's
    pairs[0][1].load_state_dict(pairs[1][1].state_dict())
    for mine, their in zip(ours, theirs, strict=True):
        loaded, saved = pairs[0][1].state[mine], pairs[1][1].state[their]
        assert torch.equal(loaded["momentum_buffer"], saved["momentum_buffer"])


def test_parameters_without_gradient_do_not_change() -> None:
    no_gradient, zero_gradient = _parameters(4)[3:5]
    first_before = no_gradient.detach().clone()
    zero_gradient.grad = torch.zeros_like(zero_gradient)
    second_before = zero_gradient.detach().clone()
    Muon([no_gradient, zero_gradient], lr=0.1, weight_decay=0.0, dtype=torch.float32).step()
    assert torch.equal(no_gradient, first_before)
    assert torch.equal(zero_gradient, second_before)


def test_matrices_of_one_shape_are_orthogonalised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by itself would be so many operations that a GPU waits for their launches."""
    shapes, orthogonal = [], module.orthogonal
    monkeypatch.setattr(
        module, "orthogonal", lambda wide: shapes.append(wide.shape) or orthogonal(wide)
    )
    matrices = [nn.Parameter(torch.ones(4, 6).T if n % 2 else torch.ones(4, 6)) for n in range(42)]
    for matrix in matrices:
        matrix.grad = torch.randn(matrix.shape)
    Muon(matrices, 0.01, 0.1, torch.bfloat16).step()
    assert shapes == [(42, 4, 6)]
