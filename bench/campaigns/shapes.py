"""Larger shapes of a bundled model with the same function, so that drafts are as often right.

A model is enlarged in three ways, each exact except for rounding:

- **Inner units** are added to the feed-forward layers. Their weights and outputs are zero.
- **Channels** are repeated: x becomes [x, x]. A normalisation of repeated channels is the repeated
  normalisation; a matrix takes the mean of the copies and writes each of them. A head's columns are
  repeated too, and queries are scaled for the wider head.
- **Layers** are added at the end of each stack; their attentions and feed-forward layers output
  zero. A post-norm layer then normalises a normalised input, which changes nothing if its norm's
  weights are one. So the weights of the stack's last norm move to the new last layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from molspec.checkpoints import Checkpoint
from molspec.model.positions import sinusoidal_positions
from molspec.model.spec import ModelSpec

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Shape:
    """Sizes of a published model: layers of each stack, width, inner units."""

    layers: int
    d_model: int
    feed_forward: int


#: By name: Schwaller et al. 2019 (and Andronov et al. 2025), Zhong et al. 2022, Irwin et al. 2022
#: (with 6 and, as its successors, 8 layers), and one as wide as Chemformer-Large.
SHAPES = {
    "Molecular Transformer": Shape(4, 256, 2048),
    "R-SMILES": Shape(6, 256, 2048),
    "Chemformer": Shape(6, 512, 2048),
    "Chemformer, 8 layers": Shape(8, 512, 2048),
    "1024 wide": Shape(8, 1024, 4096),
}


def reshaped(checkpoint: Checkpoint, shape: Shape) -> Checkpoint:
    """A checkpoint with the same function and the size of `shape`.

    Raises ValueError if the shape is smaller, its width no multiple, or the model not post-norm.
    """
    spec = checkpoint.spec
    if shape.layers < max(spec.encoder_layers, spec.decoder_layers) or shape.d_model % spec.d_model:
        raise ValueError(
            f"shape is {shape}: expected at least {spec.encoder_layers} and {spec.decoder_layers} "
            f"layers, and a multiple of {spec.d_model} channels"
        )
    if spec.norm != "post" or spec.norm_kind != "layer" or spec.positions != "sinusoidal":
        raise ValueError(f"{spec}: expected post-norm layers and sinusoidal positions")
    checkpoint = widened(checkpoint, shape.feed_forward)
    spec, weights = checkpoint.spec, dict(checkpoint.weights)
    spec, weights = _more_channels(spec, weights, shape.d_model // spec.d_model)
    spec, weights = _more_layers(spec, weights, shape.layers)
    return replace(checkpoint, spec=spec, weights=weights)


def widened(checkpoint: Checkpoint, feed_forward: int) -> Checkpoint:
    """The same function with `feed_forward` inner units, in every dtype to the bit.

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


def _more_channels(spec: ModelSpec, weights: Weights, times: int) -> tuple[ModelSpec, Weights]:
    if times == 1:
        return spec, weights

    def channels(value: Tensor, dim: int) -> Tensor:
        return torch.cat([value] * times, dim)

    def heads(value: Tensor, dim: int) -> Tensor:
        split = value.unflatten(dim, (spec.head_count, -1))
        return channels(split, dim + 1).flatten(dim, dim + 1)

    wider = {}
    for name, value in weights.items():
        part = name.rpartition(".")[0].rpartition(".")[2]
        mixes_heads = part == "output" and "_attention." in name
        if part in ("query", "key", "value"):
            value = heads(value, 0)
        elif mixes_heads or part == "outer" or part.endswith("norm"):
            value = channels(value, 0)
        if part == "query":
            value = value * times**-0.5  # a product of two heads has `times` equal parts
        if mixes_heads and value.dim() == 2:
            value = heads(value, 1) / times
        elif not part:
            value = channels(value, 1)  # an embedding
        elif value.dim() == 2 and part != "outer":
            value = channels(value, 1) / times
        wider[name] = value
    table = channels(sinusoidal_positions(spec.max_positions, spec.d_model), 1)
    wider |= {"source_positions": table, "target_positions": table.clone()}
    return replace(spec, d_model=spec.d_model * times, positions="learned"), wider


def _more_layers(spec: ModelSpec, weights: Weights, count: int) -> tuple[ModelSpec, Weights]:
    deeper = dict(weights)
    for stack, layers in (("encoder", spec.encoder_layers), ("decoder", spec.decoder_layers)):
        if layers == count:
            continue
        last = f"{stack}.layers.{layers - 1}."
        for name, value in _with_prefix(weights, last):
            for index in range(layers, count):
                deeper[f"{stack}.layers.{index}.{name}"] = _silent(name, value)
        for part in ("feed_forward_norm.weight", "feed_forward_norm.bias"):
            final = deeper[last + part]
            deeper[last + part] = _silent(part, final)
            deeper[f"{stack}.layers.{count - 1}.{part}"] = final
    return replace(spec, encoder_layers=count, decoder_layers=count), deeper


def _with_prefix(weights: Weights, prefix: str) -> Iterator[tuple[str, Tensor]]:
    for name, value in weights.items():
        if name.startswith(prefix):
            yield name.removeprefix(prefix), value


def _silent(name: str, value: Tensor) -> Tensor:
    """The same weight for an added layer, whose output is zero and whose norm is the identity."""
    if "_norm" in name:
        return torch.full_like(value, float(name.endswith("weight")))
    outputs = (".output.weight", ".output.bias", ".outer.weight", ".outer.bias")
    return torch.zeros_like(value) if name.endswith(outputs) else value.clone()
