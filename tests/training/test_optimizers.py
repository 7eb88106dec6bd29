"""The parameters of each optimiser."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from molspec.model.spec import ModelSpec
from molspec.model.transformer import Transformer
from molspec.training import TrainConfig
from molspec.training.optimizers import optimizers, set_learning_rate

SPEC = ModelSpec(9, 9, d_model=16, head_count=2, encoder_layers=1, decoder_layers=1, feed_forward=8)


@pytest.mark.parametrize("name", ["muon", "adamw"])
def test_every_parameter_has_one_optimizer_and_learns(name: str) -> None:
    torch.manual_seed(1)
    model = Transformer(SPEC, 0.0, pad_id=0)
    created = optimizers(model, TrainConfig(steps=1, optimizer=name))  # type: ignore[arg-type]
    parameters = [
        parameter
        for optimizer in created
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
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
