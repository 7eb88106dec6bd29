"""Muon (Jordan et al. 2024) in a training's precision.

PyTorch's Muon computes in bfloat16. Processors without bfloat16 arithmetic emulate that, which took
a quarter of a training's time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer

_MOMENTUM = 0.95
#: The quintic polynomial whose iteration brings singular values near 1, and its iterations.
_A, _B, _C = 3.4445, -4.775, 2.0315
_ITERATIONS = 5
_TINY = 1e-7


class Muon(Optimizer):
    """Steps of matrices along their Nesterov momentum, with all singular values near 1.

    They are scaled to the length of AdamW's (Liu et al. 2025), so that both use one learning rate;
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
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is not None:
                    matrix.mul_(1 - group["lr"] * group["weight_decay"])
                    length = 0.2 * math.sqrt(max(matrix.shape))
                    step = orthogonal(self._with_momentum(matrix).to(self._dtype))
                    matrix.add_(step, alpha=-group["lr"] * length)

    def _with_momentum(self, matrix: Tensor) -> Tensor:
        assert matrix.grad is not None
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        momentum: Tensor = state["momentum_buffer"]
        momentum.lerp_(matrix.grad, 1 - _MOMENTUM)
        return matrix.grad.lerp(momentum, _MOMENTUM)


def orthogonal(matrix: Tensor) -> Tensor:
    """The matrix with singular values between 0.7 and 1.2, by Newton-Schulz iterations."""
    high = matrix.shape[0] > matrix.shape[1]
    wide = matrix.T if high else matrix
    wide = wide / wide.norm().clamp(min=_TINY)
    for _ in range(_ITERATIONS):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=_B, alpha=_C), wide, beta=_A)
    return wide.T if high else wide
