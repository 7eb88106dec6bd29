"""Finds the spec and the weights of a module in its recorded operations.

A convention is right if it turns the recorded input of an operation into its recorded output. It is
searched in the first layer and must hold in the others.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import torch
from torch import Tensor

from molspec.drop_in import norms, recording
from molspec.drop_in.rotation import Rotation, find_rotation
from molspec.drop_in.stacks import TOLERANCE, Layers, Stack, Sublayer, Weights, put, record, search
from molspec.engine.torch.module import EncoderDecoder
from molspec.model.positions import relative_biases, rotated, sinusoidal_positions
from molspec.model.spec import ModelSpec
from molspec.model.transformer import ACTIVATIONS

_HEAD_COUNTS = range(1, 65)
_PROJECTIONS = ("query", "key", "value")


def find(own: EncoderDecoder, max_positions: int) -> tuple[ModelSpec, dict[str, Tensor]]:
    """Spec and weights of the float64 module behind an interface.

    Raises ValueError, naming the part that the engine lacks and the nearest difference.
    """
    encoder = record("encoder", own, max_positions)
    decoder = record("decoder", own, max_positions, encoder.result)
    stacks = encoder, decoder
    width = encoder.attention_width
    layers = {stack.name: stack.sublayers(width) for stack in stacks}
    weights: Weights = {}
    settings = _positions(stacks, layers, weights) | _attentions(stacks, layers, weights)
    settings |= _feed_forwards([*layers["encoder"], *layers["decoder"]], weights)
    settings |= norms.find_norms(stacks, layers, weights) | _output(decoder, weights)
    spec = ModelSpec(
        source_vocab_size=len(encoder.tokens),
        target_vocab_size=len(decoder.tokens),
        d_model=encoder.tokens.shape[1],
        encoder_layers=len(layers["encoder"]) // 2,
        decoder_layers=len(layers["decoder"]) // 3,
        attention_width=width,
        max_positions=max_positions,
        biases=any(name.endswith("bias") for name in weights if ".layers." in name),
        **settings,
    )
    shapes = spec.weight_shapes()
    zeros = {n: encoder.tokens.new_zeros(shapes[n]) for n in shapes if n.endswith("bias")}
    return spec, {name: {**zeros, **weights}[name] for name in shapes}


def _positions(stacks: Sequence[Stack], layers: Layers, weights: Weights) -> dict[str, Any]:
    encoder, decoder = stacks
    for side, stack in zip(("source", "target"), stacks, strict=True):
        weights[f"{side}_embedding"], weights[f"{side}_positions"] = stack.tokens, stack.positions
    shared = {"shared_embedding": torch.equal(encoder.tokens.float(), decoder.tokens.float())}
    if encoder.relative and decoder.relative:
        return _relative(stacks, layers, weights) | shared
    if not any(stack.has_positions for stack in stacks):
        for side, stack in zip(("source", "target"), stacks, strict=True):
            weights[f"{side}_embedding"] = stack.tokens + stack.positions[:1]
        return {"positions": "none"} | shared
    sinusoids = sinusoidal_positions(*encoder.positions.shape).to(encoder.positions.device)
    found = all(torch.equal(stack.positions.float(), sinusoids) for stack in stacks)
    return {"positions": "sinusoidal" if found else "learned"} | shared


def _relative(stacks: Sequence[Stack], layers: Layers, weights: Weights) -> dict[str, Any]:
    """The settings that give the recorded bucket of every distance."""
    tables, buckets = zip(*(stack.relative for stack in stacks if stack.relative), strict=True)
    count = len(tables[0][0])
    numbers = torch.arange(count, device=tables[0][0].device)[:, None]

    def fits(longest: int) -> bool:
        spec = ModelSpec(1, 1, relative_buckets=count, relative_max_distance=longest)
        return all(
            torch.equal(
                relative_biases(numbers, spec, stack.name, len(each))[0],
                torch.cat((each[1:, 0].flip(0), each[0])),
            )
            for stack, each in zip(stacks, buckets, strict=True)
        )

    longest = next(filter(fits, range(count // 2 + 1, 4 * len(buckets[0]))), None)
    if longest is None:
        raise ValueError(f"its {count} buckets of relative positions are not those of T5")
    per_layer = max(map(len, tables)) > 1
    for stack, found in zip(stacks, tables, strict=True):
        attentions = [name for name, *_ in layers[stack.name] if name.endswith("self_attention")]
        if per_layer and len(found) != len(attentions):
            raise ValueError(
                f"the {stack.name} has {len(found)} tables of relative positions: expected one, "
                "or one a layer"
            )
        for name, table in zip(attentions if per_layer else [f"{stack.name}."], found, strict=True):
            weights[f"{name.rpartition('.')[0]}.relative_bias"] = table
    return {
        "positions": "relative",
        "relative_per_layer": per_layer,
        "relative_buckets": count,
        "relative_max_distance": longest,
    }


def _attentions(stacks: Sequence[Stack], layers: Layers, weights: Weights) -> dict[str, Any]:
    """Heads, scale and rotation, which all layers share; the order of query, key and value."""
    width = stacks[0].attention_width
    relative = stacks[0].relative  # has a bias for each head
    rotation = find_rotation(stacks[0])
    possible = _HEAD_COUNTS if relative is None else relative.tables[0].shape[1:]
    counts = [count for count in possible if width % count == 0]
    shared = [*product(counts, (True, False))]
    for stack in stacks:
        orders: dict[str, list[tuple[str, ...]]] = {}
        for name, parts, outer in layers[stack.name]:
            kind = name.rpartition(".")[2]
            if kind == "feed_forward":
                continue
            turns = rotation if kind == "self_attention" else None
            layer = int(name.split(".")[2])
            mask = outer.entry.new_zeros(()) if kind == "cross_attention" else stack.mask(layer)
            tried = (
                (each, _attended(parts, *each, mask, turns))
                for each in product(orders.get(kind, permutations(_PROJECTIONS)), shared)
            )
            heads = f"{shared[0][0]} heads as before it," if len(shared) == 1 else "equal heads"
            hint = "without tanh of its scores; is its mask, True at padding, inverted?"
            what = f"{name} is not attention of {heads} alone ({hint})"
            order, convention = search(what, outer.entry, tried)
            orders[kind], shared = [order], [convention]
            for part, step in zip((*order, "output"), (*parts, outer), strict=True):
                if turns is not None and part in ("query", "key"):
                    step = _ordered(step, turns.order)
                put(weights, f"{name}.{part}", step)
    settings = {"head_count": shared[0][0], "scale_attention": shared[0][1]}
    if rotation is None:
        return settings
    weights["rotary"] = rotation.table
    return settings | {"rotary_columns": rotation.table.shape[1]}


def _ordered(step: recording.Step, order: Tensor) -> recording.Step:
    """A projection whose heads have their columns in this order."""
    by_head = step.weight.unflatten(0, (-1, len(order)))[:, order].flatten(0, 1)
    bias = None if step.bias is None else step.bias.unflatten(0, (-1, len(order)))[:, order]
    return replace(step, weight=by_head, bias=None if bias is None else bias.flatten())


def _attended(
    parts: Sequence[recording.Step],
    order: tuple[str, ...],
    convention: tuple[int, bool],
    mask: Tensor,
    rotation: Rotation | None,
) -> Tensor:
    """The input of an attention's last layer; empty if key, value and rotation do not fit."""
    head_count, scaled = convention
    results = [parts[order.index(each)].result for each in _PROJECTIONS]
    query, key, value = (x.unflatten(1, (head_count, -1)).transpose(0, 1) for x in results)
    if key.shape != value.shape or (rotation and query.shape[2] != len(rotation.order)):
        return torch.empty(0)
    if rotation is not None:
        table = rotation.table[: query.shape[1]]
        query, key = (rotated(x[..., rotation.order], table) for x in (query, key))
    scale = query.shape[2] ** -0.5 if scaled else 1.0
    mixed = (scale * query @ key.mT + mask).softmax(dim=-1) @ value
    rows: Tensor = mixed.transpose(0, 1).flatten(1)
    return rows


def _feed_forwards(sublayers: Sequence[Sublayer], weights: Weights) -> dict[str, Any]:
    """The activation, and which of two layers is the gate."""
    found: list[tuple[str, tuple[int, ...]]] = []
    for name, parts, outer in sublayers:
        if not name.endswith("feed_forward"):
            continue
        tried = (
            ((kind, order), _activated([parts[each].result for each in order], kind))
            for kind, order in found or product(ACTIVATIONS, permutations(range(len(parts))))
        )
        known = found[0][0] if found else "relu, gelu, gelu_tanh or silu"
        found = [search(f"the activation of {name} is not {known}", outer.entry, tried)]
        for place, part in zip(found[0][1], ("gate", "inner")[-len(parts) :], strict=True):
            put(weights, f"{name}.{part}", parts[place])
        put(weights, f"{name}.outer", outer)
    activation, order = found[0]
    size = sublayers[-1].outer.weight.shape[1]
    return {"activation": activation, "gated": len(order) == 2, "feed_forward": size}


def _activated(results: Sequence[Tensor], activation: str) -> Tensor:
    activated: Tensor = ACTIVATIONS[activation](results[0])
    return torch.mul(activated, results[1]) if len(results) == 2 else activated


def _output(decoder: Stack, weights: Weights) -> dict[str, Any]:
    """The linear layer that makes the logits, or their log_softmax, and what is added to them."""
    head = decoder.linears[-1]
    logits = decoder.result.reshape(-1, decoder.result.shape[-1])
    if (len(head.weight), len(decoder.tokens)) != (logits.shape[1],) * 2:
        raise ValueError(
            f"the output layer has {len(head.weight)} rows, the logits {logits.shape[1]} columns "
            f"and the target embedding {len(decoder.tokens)} rows: expected one number"
        )
    # What rows have in common is a bias; the rest may be multiplied by a number, a temperature.
    apart = head.result - head.result[:1]
    factor = float(((logits - logits[:1]) * apart).sum() / apart.square().sum())
    factor = 1.0 if abs(factor - 1) < TOLERANCE else factor
    added = (logits - factor * head.result)[:1]
    tried = (
        (factor, added, factor * head.result + added),
        (1.0, 0 * added, head.result.log_softmax(dim=-1)),
    )
    what = "the logits are not a linear layer over the decoder's output"
    factor, added = search(what, logits, ((each[:2], each[2]) for each in tried))
    bias = added[0] if head.bias is None else added[0] + factor * head.bias
    weights["output.weight"], weights["output.bias"] = factor * head.weight, bias
    return {
        "tied_output": torch.equal(weights["output.weight"].float(), decoder.tokens.float()),
        "output_bias": head.bias is not None or bool(bias.any()),
    }
