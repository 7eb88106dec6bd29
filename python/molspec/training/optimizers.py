"""The optimisers of a training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn
from torch.optim import AdamW, Optimizer

from molspec.checkpoints import DTYPES
from molspec.model.transformer import Transformer
from molspec.training.config import StepConfig
from molspec.training.muon import Muon

BETAS = (0.9, 0.98)  # Vaswani et al. 2017
#: The key of a parameter group's share of the learning rate.
SHARE = "share"


def optimizers(model: Transformer, config: StepConfig) -> list[Optimizer]:
    """One AdamW for all parameters, or Muon for the layers' matrices and AdamW for the others."""
    settings: dict[str, Any] = {"lr": config.learning_rate, "weight_decay": config.weight_decay}
    if config.optimizer == "adamw":
        return [_adamw(list(model.parameters()), settings)]
    matrices = [part.weight for part in model.modules() if isinstance(part, nn.Linear)]
    in_layers = {id(matrix) for matrix in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in in_layers]
    muon = Muon(matrices, **settings, dtype=DTYPES[config.precision])
    return [muon, _adamw(others, settings)]


def _adamw(parameters: list[nn.Parameter], settings: dict[str, Any]) -> AdamW:
    return AdamW(grouped(parameters), betas=BETAS, fused=True, **settings)


def grouped(parameters: Iterable[nn.Parameter], **more: Any) -> list[dict[str, Any]]:
    """Two parameter groups, so that only matrices decay; `more` are other settings of both."""
    parameters = list(parameters)
    return [
        {"params": [item for item in parameters if item.dim() > 1], **more},
        {"params": [item for item in parameters if item.dim() == 1], "weight_decay": 0.0, **more},
    ]


def set_learning_rate(all_optimizers: Sequence[Optimizer], learning_rate: float) -> None:
    """Set the learning rate of every parameter group."""
    for optimizer in all_optimizers:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * group.get(SHARE, 1)
