"""The papers' shape: a checkpoint whose feed-forward layers are as wide as theirs."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from molspec.checkpoints import Checkpoint

#: Inner units of a feed-forward layer in the Molecular Transformer and what came of it.
PAPERS_FEED_FORWARD = 2048


def widened(checkpoint: Checkpoint, feed_forward: int = PAPERS_FEED_FORWARD) -> Checkpoint:
    """The same function at the cost of `feed_forward` units: those that are added stay silent.

    Their weights are zero, and so is what they send on, in every dtype to the bit.
    """
    added = feed_forward - checkpoint.spec.feed_forward
    if added < 0:
        raise ValueError(
            f"feed_forward is {feed_forward}: expected at least the model's own, "
            f"{checkpoint.spec.feed_forward}"
        )
    spec = replace(checkpoint.spec, feed_forward=feed_forward)
    shapes = spec.weight_shapes()
    weights = {name: _padded(value, shapes[name]) for name, value in checkpoint.weights.items()}
    return replace(checkpoint, spec=spec, weights=weights)


def _padded(weight: Tensor, shape: tuple[int, ...]) -> Tensor:
    if tuple(weight.shape) == shape:
        return weight
    larger = weight.new_zeros(shape)
    larger[tuple(slice(size) for size in weight.shape)] = weight
    return larger
