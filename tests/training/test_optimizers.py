"""Which optimiser has which parameters."""

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
def test_every_parameter_has_one_and_learns(name: str) -> None:
    torch.manual_seed(1)
    model = Transformer(SPEC, 0.0, pad_id=0)
    made = optimizers(model, TrainConfig(steps=1, optimizer=name))  # type: ignore[arg-type]
    held = [
        parameter
        for optimizer in made
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    assert sorted(map(id, held)) == sorted(map(id, model.parameters()))
    before = [parameter.detach().clone() for parameter in held]
    ids = torch.randint(1, 9, (4, 7), generator=torch.Generator().manual_seed(1))
    torch.autograd.backward(model(ids, ids).square().mean())
    set_learning_rate(made, 0.5)
    for optimizer in made:
        optimizer.step()
    for parameter, old in zip(held, before, strict=True):
        assert parameter.grad is not None
        assert torch.equal(parameter, old) == (not parameter.grad.any())


def test_muon_has_the_matrices_of_layers_alone() -> None:
    model = Transformer(SPEC, 0.0, pad_id=0)
    muon, adamw = optimizers(model, TrainConfig(steps=1))
    matrices = {id(part.weight) for part in model.modules() if isinstance(part, nn.Linear)}
    assert {id(item) for group in muon.param_groups for item in group["params"]} == matrices
    # 4 of an attention, 3 attentions; 2 of a feed-forward layer, 2 such layers
    assert len(matrices) == 16
    decays = [group["weight_decay"] for group in adamw.param_groups]
    assert decays == [0.01, 0.0]
    assert all(item.dim() == 1 for item in adamw.param_groups[1]["params"])
