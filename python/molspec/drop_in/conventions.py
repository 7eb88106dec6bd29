"""Finds the spec and the weights of a module in its recorded operations.

A convention is right if it turns the recorded input of an operation into its recorded output. It is
searched in the first layer and must hold in the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from molspec.drop_in.recording import Step
from molspec.drop_in.stacks import TOLERANCE, Stack, Sublayer, difference, record
from molspec.engine.torch.module import EncoderDecoder
from molspec.model.positions import relative_biases, sinusoidal_positions
from molspec.model.spec import ModelSpec
from molspec.model.transformer import ACTIVATIONS

_HEAD_COUNTS = range(1, 65)
_PROJECTIONS = ("query", "key", "value")
#: "std" is the norm (x - mean) / (standard deviation + eps), which the engine lacks.
_NORM_KINDS = ("layer", "rms", "std")
#: The eps of norms in single operations is found up to this.
_SAME_EPS = 1e-9
_SMALLEST_EPS = 1e-12
_Tried = TypeVar("_Tried")
_Weights = dict[str, Tensor]
_Layers = Mapping[str, Sequence[Sublayer]]


def find(own: EncoderDecoder, max_positions: int) -> tuple[ModelSpec, dict[str, Tensor]]:
    """Spec and weights of the float64 module behind an interface.

    Raises ValueError, naming the part that the engine lacks and the nearest difference.
    """
    encoder = record("encoder", own, max_positions)
    decoder = record("decoder", own, max_positions, encoder.result)
    stacks = encoder, decoder
    width = encoder.attention_width
    layers = {stack.name: stack.sublayers(width) for stack in stacks}
    weights: _Weights = {}
    settings = _positions(stacks, weights) | _attentions(stacks, layers, weights)
    settings |= _feed_forwards([*layers["encoder"], *layers["decoder"]], weights)
    settings |= _norms(stacks, layers, weights) | _output(decoder, weights)
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


def _search(what: str, expected: Tensor, tried: Iterable[tuple[_Tried, Tensor]]) -> _Tried:
    """The first of the tried that makes what is expected."""
    nearest = torch.inf
    for found, made in tried:
        if (distance := difference(made, expected)) <= TOLERANCE:
            return found
        nearest = min(nearest, distance)
    raise ValueError(f"{what}; the nearest differs by {nearest:.2g}")


def _positions(stacks: Sequence[Stack], weights: _Weights) -> dict[str, Any]:
    encoder, decoder = stacks
    for side, stack in zip(("source", "target"), stacks, strict=True):
        weights[f"{side}_embedding"], weights[f"{side}_positions"] = stack.tokens, stack.positions
    shared = {"shared_embedding": torch.equal(encoder.tokens.float(), decoder.tokens.float())}
    if encoder.relative and decoder.relative:
        return _relative(stacks, weights) | shared
    sinusoids = sinusoidal_positions(*encoder.positions.shape).to(encoder.positions.device)
    found = all(torch.equal(stack.positions.float(), sinusoids) for stack in stacks)
    return {"positions": "sinusoidal" if found else "learned"} | shared


def _relative(stacks: Sequence[Stack], weights: _Weights) -> dict[str, Any]:
    """The settings that give the recorded bucket of every distance."""
    tables, buckets = zip(*(stack.relative for stack in stacks if stack.relative), strict=True)
    count = len(tables[0])
    numbers = torch.arange(count, device=tables[0].device)[:, None]

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
    weights["encoder.relative_bias"], weights["decoder.relative_bias"] = tables
    return {
        "positions": "relative",
        "relative_buckets": count,
        "relative_max_distance": longest,
    }


def _attentions(stacks: Sequence[Stack], layers: _Layers, weights: _Weights) -> dict[str, Any]:
    """Heads and scale, which all layers share, and the order of query, key and value."""
    width = stacks[0].attention_width
    counts = [count for count in _HEAD_COUNTS if width % count == 0]
    shared = [*product(counts, (True, False))]
    orders: dict[str, list[tuple[str, ...]]] = {}
    for stack in stacks:
        for name, parts, outer in layers[stack.name]:
            if not name.endswith("attention"):
                continue
            kind = stack.name + name.rpartition(".")[2]
            mask = outer.entry.new_zeros(()) if "cross" in name else stack.mask
            tried = (
                (
                    (order, convention),
                    _attended(
                        [parts[order.index(each)] for each in _PROJECTIONS], *convention, mask
                    ),
                )
                for order in orders.get(kind, permutations(_PROJECTIONS))
                for convention in shared
            )
            heads = f"{shared[0][0]} heads, as before it" if len(shared) == 1 else "equal heads"
            rotary = "" if stack.has_positions else ", such as rotary positions"
            what = f"{name} is not attention of {heads} without anything else{rotary}"
            order, convention = _search(what, outer.entry, tried)
            orders[kind], shared = [order], [convention]
            for part, step in zip((*order, "output"), (*parts, outer), strict=True):
                _put(weights, f"{name}.{part}", step)
    return {"head_count": shared[0][0], "scale_attention": shared[0][1]}


def _attended(parts: Sequence[Step], head_count: int, scaled: bool, mask: Tensor) -> Tensor:
    """The input of an attention's last layer; empty if key and value do not fit."""
    query, key, value = (
        part.result.unflatten(1, (head_count, -1)).transpose(0, 1) for part in parts
    )
    if key.shape != value.shape:
        return query.new_empty(0)
    scale = query.shape[2] ** -0.5 if scaled else 1.0
    mixed: Tensor = (scale * query @ key.mT + mask).softmax(dim=-1) @ value
    return mixed.transpose(0, 1).flatten(1)


def _feed_forwards(sublayers: Sequence[Sublayer], weights: _Weights) -> dict[str, Any]:
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
        found = [_search(f"the activation of {name} is not {known}", outer.entry, tried)]
        for place, part in zip(found[0][1], ("gate", "inner")[-len(parts) :], strict=True):
            _put(weights, f"{name}.{part}", parts[place])
        _put(weights, f"{name}.outer", outer)
    activation, order = found[0]
    size = sublayers[-1].outer.weight.shape[1]
    return {"activation": activation, "gated": len(order) == 2, "feed_forward": size}


def _activated(results: Sequence[Tensor], activation: str) -> Tensor:
    activated: Tensor = ACTIVATIONS[activation](results[0])
    return activated if len(results) == 1 else activated * results[1]


def _put(weights: _Weights, name: str, step: Step) -> None:
    weights[f"{name}.weight"] = step.weight
    if step.bias is not None:
        weights[f"{name}.bias"] = step.bias


class _Norm(NamedTuple):
    """A norm, or the end of a stack, and how much the residual connection there differs."""

    name: str
    step: Step | None
    eps: float
    difference: float


class _Place(NamedTuple):
    """Where both stacks have norms, and of which kind."""

    norm_kind: str
    norm: str
    embedding_norm: bool
    final_norm: bool


def _norms(stacks: Sequence[Stack], layers: _Layers, weights: _Weights) -> dict[str, Any]:
    """The place, the kind and the eps of all norms."""
    tried = []
    for each in product(_NORM_KINDS, ("pre", "post"), (False, True), (False, True)):
        place = _Place(*each)
        expected = [len(layers[s.name]) + place.embedding_norm + place.final_norm for s in stacks]
        if expected == [len(stack.norms) for stack in stacks]:
            found = [norm for s in stacks for norm in _walk(s, layers[s.name], place)]
            wrong = [norm for norm in found if norm.difference > TOLERANCE]
            tried.append((len(wrong), place, found, wrong))
    if not tried:
        counts = " and ".join(f"{len(stack.norms)} in the {stack.name}" for stack in stacks)
        raise ValueError(
            f"the module has {counts} norms: expected one a layer's part, and equal ones at the "
            "beginning and end of both"
        )
    count, place, found, wrong = min(tried, key=lambda each: each[0])
    if wrong:
        raise ValueError(
            f"{wrong[0].name} is not as in a {place.norm}-norm model of {place.norm_kind} norms, "
            f"as {len(found) - count} of {len(found)} are; the nearest differs by "
            f"{wrong[0].difference:.2g}"
        )
    if place.norm_kind == "std":
        nearest = next(each for _, other, each, _ in tried if other[1:] == place[1:])
        raise ValueError(
            "the norms are (x - mean) / (standard deviation + eps), which the engine lacks; the "
            f"nearest, layer norms, differ by {max(norm.difference for norm in nearest):.2g}"
        )
    eps = [norm.eps for norm in found if norm.step is not None]
    if max(eps) - min(eps) > _SAME_EPS:
        raise ValueError(f"norm_eps differs between norms, {min(eps)} and {max(eps)}")
    for norm in found:
        if norm.step is not None:
            _put(weights, norm.name, norm.step)
    return {**place._asdict(), "norm_eps": eps[0]}


def _walk(stack: Stack, sublayers: Sequence[Sublayer], place: _Place) -> list[_Norm]:
    """Follow a stack's residual connection through its norms to its end."""
    norms = iter(stack.norms)
    found: list[_Norm] = []

    def normed(name: str, hidden: Tensor) -> Tensor:
        step = next(norms)
        eps, made = _normed(place.norm_kind, step, hidden)
        found.append(_Norm(name, step, eps, difference(made, step.result)))
        return step.result

    hidden = stack.entry
    if place.embedding_norm:
        hidden = normed(f"{stack.name}.embedding_norm", hidden)
    for name, _, outer in sublayers:
        if place.norm == "pre":
            normed(f"{name}_norm", hidden)
            hidden = hidden + outer.result
        else:
            hidden = normed(f"{name}_norm", hidden + outer.result)
    if place.final_norm:
        hidden = normed(f"{stack.name}.norm", hidden)
    factor, last = 1.0, found[-1].step
    if last is not None and hidden is last.result:
        # T5 multiplies the decoder's output by a constant: here its last norm does.
        factor = float((stack.end * hidden).sum() / hidden.square().sum())
    if last is not None and abs(factor - 1) > TOLERANCE:
        bias = None if last.bias is None else factor * last.bias
        found[-1] = found[-1]._replace(step=replace(last, weight=factor * last.weight, bias=bias))
    end = difference(factor * hidden, stack.end)
    return [*found, _Norm(f"the {stack.name}'s result", None, 0.0, end)]


def _normed(kind: str, step: Step, hidden: Tensor) -> tuple[float, Tensor]:
    """The eps of a norm, which one in single operations does not tell, and its result."""
    centred = hidden if kind == "rms" else hidden - hidden.mean(dim=-1, keepdim=True)
    square = centred.square().mean(dim=-1, keepdim=True)
    if kind == "std":
        square = square * hidden.shape[1] / (hidden.shape[1] - 1)
    scaled = centred * step.weight
    bias = 0.0 if step.bias is None else step.bias
    largest = scaled.abs().argmax(dim=-1, keepdim=True)
    divisor = (scaled / (step.result - bias)).gather(-1, largest)
    found = divisor - square.sqrt() if kind == "std" else divisor.square() - square
    eps = (
        max(float(f"{float(found.median()):.3g}"), _SMALLEST_EPS) if step.eps is None else step.eps
    )
    root = square.sqrt() + eps if kind == "std" else (square + eps).sqrt()
    return eps, scaled / root + bias


def _output(decoder: Stack, weights: _Weights) -> dict[str, Any]:
    """The linear layer that makes the logits, or their log_softmax, and what is added to them."""
    head = decoder.linears[-1]
    logits = decoder.result.reshape(-1, decoder.result.shape[-1])
    if (len(head.weight), len(decoder.tokens)) != (logits.shape[1],) * 2:
        raise ValueError(
            f"the output layer has {len(head.weight)} rows, the logits {logits.shape[1]} columns "
            f"and the target embedding {len(decoder.tokens)} rows: expected one number"
        )
    added = (logits - head.result)[:1]
    tried = (added, head.result + added), (0 * added, head.result.log_softmax(dim=-1))
    bias = _search("the logits are not a linear layer over the decoder's output", logits, tried)
    bias = bias[0] if head.bias is None else bias[0] + head.bias
    weights["output.weight"], weights["output.bias"] = head.weight, bias
    return {
        "tied_output": torch.equal(head.weight.float(), decoder.tokens.float()),
        "output_bias": head.bias is not None or bool(bias.any()),
    }
