"""Fused kernels are taken if they give what single operations give; Triton's run if it is there."""

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from molspec.model.spec import ModelSpec
from molspec.model.transformer import Transformer
from molspec.training.fusing import fuse, wrong_results

LIKE = Transformer(ModelSpec(9, 9, 64, 2, 1, 2, 64))


class Plain:
    """The kernels as single operations, unless a scale or a share of dropout makes them wrong."""

    def __init__(self, scale: float = 1.0, share: float = 1.0) -> None:
        self.scale, self.share = scale, share

    def norm_of_sum(
        self, residual: Tensor, change: Tensor, norm: Any, dropout: float
    ) -> tuple[Tensor, Tensor]:
        made = norm(residual + self.scale * F.dropout(change.float(), self.share * dropout))
        return made, made.bfloat16()

    def dropped_relu(self, inner: Tensor, dropout: float) -> Tensor:
        return F.dropout(inner.relu(), self.share * dropout)


def test_kernels_that_give_the_same_are_taken_and_wrong_ones_named() -> None:
    assert wrong_results(Plain(), LIKE) == []
    assert "loss" in wrong_results(Plain(scale=torch.nan), LIKE)
    assert "encoder.layers.0.feed_forward.outer.weight" in wrong_results(Plain(scale=1.2), LIKE)
    assert wrong_results(Plain(share=0.5), LIKE) == ["dropout of norm", "dropout of ReLU"]


def test_other_models_and_a_switch_keep_single_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fuse(Transformer(ModelSpec(9, 9, 64, 2, norm="pre"))).startswith("no: they are for")
    monkeypatch.setitem(sys.modules, "triton", None)  # not installed
    monkeypatch.delitem(sys.modules, "molspec.training.fused", raising=False)
    assert "triton" in fuse(LIKE)
    monkeypatch.setenv("MOLSPEC_FUSED", "0")
    assert fuse(LIKE) == "no: MOLSPEC_FUSED is 0"


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton comes with torch for CUDA")
def test_triton_kernels_in_its_interpreter() -> None:
    code = (
        "from tests.training.test_fusing import LIKE, fuse; assert fuse(LIKE) == 'yes', fuse(LIKE)"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
