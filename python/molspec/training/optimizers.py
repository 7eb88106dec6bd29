"""The optimisers of a training."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from molspec.checkpoints import DTYPES
from molspec.model.transformer import Transformer
from molspec.training.config import StepConfig

BETAS = (0.9, 0.98)  # Vaswani et al. 2017
#: The key of a parameter group's share of the learning rate.
SHARE = "share"
#: Of Muon, whose iterations of a quintic polynomial bring singular values near 1.
_MOMENTUM = 0.95
_A, _B, _C = 3.4445, -4.775, 2.0315
_ITERATIONS = 5
_TINY = 1e-7


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


class Muon(Optimizer):
    """Steps of matrices along their Nesterov momentum, with all singular values near 1.

    Jordan et al. 2024, in a training's precision: PyTorch's Muon computes in bfloat16, which
    processors without bfloat16 arithmetic emulate in a quarter of a training's time. The steps
    are scaled to the length of AdamW's (Liu et al. 2025), so that both use one learning rate;
    weight decay is decoupled. State and parameters are those of `torch.optim.Muon`, with
    adjust_lr_fn="match_rms_adamw". `dtype` is that of the orthogonalisation.
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float, weight_decay: float, dtype: torch.dtype
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closure is called
        """Update every matrix that has a gradient; those of one shape are orthogonalised at once.

        A matrix and its transpose count as one shape. So a step is few operations, however many
        matrices there are: launching each matrix's own took a GPU as long as the model itself.
        """
        for group in self.param_groups:
            matrices = [matrix for matrix in group["params"] if matrix.grad is not None]
            steps = self._with_momentum(matrices)
            if matrices:
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            for alike in _of_one_shape(matrices):
                some = [matrices[index] for index in alike]
                stack = torch.stack([_turned(steps[index], like=steps[index]) for index in alike])
                made = orthogonal(stack.to(self._dtype)).to(stack.dtype)
                torch._foreach_add_(
                    some,
                    [_turned(step, like=matrix) for step, matrix in zip(made, some, strict=True)],
                    alpha=-group["lr"] * 0.2 * math.sqrt(stack.shape[-1]),
                )

    def _with_momentum(self, matrices: Sequence[Tensor]) -> list[Tensor]:
        """Average the gradients; return the matrices' Nesterov momentum."""
        if not matrices:
            return []
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        momenta = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        torch._foreach_lerp_(momenta, gradients, 1 - _MOMENTUM)
        return list(torch._foreach_lerp(gradients, momenta, _MOMENTUM))


def _turned(matrix: Tensor, like: Tensor) -> Tensor:
    """Transpose if `like` has more rows than columns."""
    return matrix.T if like.shape[0] > like.shape[1] else matrix


def _of_one_shape(matrices: Sequence[Tensor]) -> Iterable[list[int]]:
    """Indices of matrices that have the same two sizes, in either order."""
    found: dict[tuple[int, ...], list[int]] = {}
    for index, matrix in enumerate(matrices):
        found.setdefault(tuple(sorted(matrix.shape)), []).append(index)
    return found.values()


def orthogonal(wide: Tensor) -> Tensor:
    """Matrices [count, rows, columns] with singular values between 0.7 and 1.2.

    By Newton-Schulz iterations; there are no more rows than columns.
    """
    wide = wide / wide.flatten(1).norm(dim=1).clamp(min=_TINY)[:, None, None]
    for _ in range(_ITERATIONS):
        gram = wide @ wide.mT
        square = torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C)
        wide = torch.baddbmm(wide, square, wide, beta=_A)
    return wide
