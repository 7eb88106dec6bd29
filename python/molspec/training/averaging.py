"""One model of several: the mean of their weights."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from molspec.checkpoints import Checkpoint


def average(models: Sequence[Checkpoint], shares: Sequence[float] | None = None) -> Checkpoint:
    """Average the weights of models that began with the same ones (Wortsman et al. 2022).

    `shares` are the models' weights in the mean, equal by default. Everything except weights and
    card is the first model's; weights are float32.

    Raises ValueError if there are no models, if a share is not positive or not every model has one,
    or if a model has another spec, vocabulary, task or spelling of queries than the first.
    """
    if not models:
        raise ValueError("models is empty: expected at least one")
    shares = [1.0] * len(models) if shares is None else shares
    if len(shares) != len(models):
        raise ValueError(f"shares has {len(shares)} items: expected {len(models)}, one a model")
    if wrong := [share for share in shares if not 0.0 < share < float("inf")]:
        raise ValueError(f"shares has {wrong[0]}: expected positive numbers")
    first = models[0]
    for number, model in enumerate(models[1:], 2):
        for name in ("spec", "vocabulary", "task", "canonical_queries"):
            if getattr(model, name) != getattr(first, name):
                raise ValueError(
                    f"model {number} has another {name} than the first: "
                    "expected models that began with the same weights"
                )
    weights, shared = {}, list(zip(models, shares, strict=True))
    for name in first.weights:
        parts = [share * model.weights[name].double() for model, share in shared]
        weights[name] = (torch.stack(parts).sum(0) / sum(shares)).float()
    aligned = any(model.aligned for model in models)
    return replace(first, weights=weights, card=None, aligned=aligned, runs_in={})
