"""A larger model with the same function, so that drafts are as often right."""

from dataclasses import replace

from torch import Tensor

from molspec.checkpoints import Checkpoint

#: Inner units of the papers' models (Schwaller et al. 2019, Andronov et al. 2025).
PAPERS_UNITS = 2048


def widened(checkpoint: Checkpoint, feed_forward: int) -> Checkpoint:
    """The same function with `feed_forward` inner units, in every dtype to the bit.

    The added units have zeros as weights and outputs.

    Raises ValueError if the model has more.
    """
    if feed_forward < checkpoint.spec.feed_forward:
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
