"""Decides whether a training takes the fused kernels of `molspec.training.fused`."""

import os
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from molspec.model.transformer import Transformer

_WIDTHS = (64, 128, 256, 512, 1024)
_DROPOUT = 0.3


def fuse(model: Transformer) -> str:
    """Let a model on a GPU take fused kernels; return "yes", or "no" and why not.

    They are tried at once, beside single operations: that takes about two seconds.
    MOLSPEC_FUSED=0 in the environment is the way back.
    """
    if os.environ.get("MOLSPEC_FUSED") == "0":
        return "no: MOLSPEC_FUSED is 0"
    spec = model.spec
    kind = spec.norm, spec.norm_kind, spec.activation, spec.gated, spec.biases
    if kind != ("post", "layer", "relu", False, True) or spec.d_model not in _WIDTHS:
        return "no: they are for LayerNorms after sublayers, biases, ReLU and 64 to 1024 columns"
    try:
        from molspec.training import fused

        wrong = wrong_results(fused, model)
    except Exception as error:  # of an import, a compiler or a driver: of many kinds
        return f"no: {type(error).__name__}: {error}"
    if wrong:
        return f"no: they differ from single operations in {', '.join(wrong)}"
    model.fuse(fused)
    return "yes"


def wrong_results(fused: Any, like: Transformer) -> list[str]:
    """The loss and the gradients of a small model that are wrong with kernels, and their dropout.

    `fused` has the functions of `molspec.training.fused`. Right is what is about as near to
    float32 as single operations in bfloat16.
    """
    device = like.source_embedding.device
    spec = replace(like.spec, encoder_layers=1, decoder_layers=1)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(1)
        model = Transformer(spec, 0.0, like.pad_id).to(device).train()
        ids = torch.randint(min(spec.source_vocab_size, spec.target_vocab_size), (3, 9)).to(device)
        exact, single = (_results(model, ids, narrow) for narrow in (False, True))
        model.fuse(fused)
        found = _results(model, ids, True)
        wrong = []
        for name, right in exact.items():
            bound = 2 * (single[name] - right).norm() + 0.01 * right.norm()
            if not (found[name] - right).norm() <= bound:  # NaN too
                wrong.append(name)
        return wrong + _wrong_dropout(fused, spec.d_model, device)


def _results(model: Transformer, ids: Tensor, narrow: bool) -> dict[str, Tensor]:
    """The loss, and the gradients of the weights."""
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=narrow):
        loss = model(ids, ids).float().logsumexp(-1).mean()
    names, weights = zip(*model.named_parameters(), strict=True)
    grads = torch.autograd.grad(loss, weights)
    return {"loss": loss.detach(), **dict(zip(names, grads, strict=True))}


def _wrong_dropout(fused: Any, width: int, device: torch.device) -> list[str]:
    """Whether as many elements are dropped as are to be, and the same ones backward."""
    norm, ones = torch.nn.LayerNorm(width).to(device), torch.ones(64, width, device=device)
    wrong = []
    for name in ("norm", "ReLU"):
        change = ones.bfloat16().requires_grad_()
        if name == "norm":
            made, _ = fused.norm_of_sum(0 * ones, change, norm, _DROPOUT)
            made = made * (1 + torch.rand(64, width)).to(device)
        else:
            made = fused.dropped_relu(change, _DROPOUT).float()
        (grad,) = torch.autograd.grad(made.sum(), change)
        kept = made > 0
        differ = kept != (grad != 0)  # but for a gradient that happens to be zero
        if abs(kept.double().mean() - (1.0 - _DROPOUT)) > 0.03 or differ.double().mean() > 1e-3:
            wrong.append(f"dropout of {name}")
    return wrong
