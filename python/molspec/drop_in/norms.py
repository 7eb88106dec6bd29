"""Finds where a module has norms, of which kind, by following its residual connections."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from torch import Tensor

from molspec.drop_in.recording import Step
from molspec.drop_in.stacks import TOLERANCE, Layers, Stack, Sublayer, Weights, difference, put

_KINDS = ("layer", "rms", "std")
#: The eps of norms in single operations is found up to this.
_SAME_EPS = 1e-9
_SMALLEST_EPS = 1e-12


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


def find_norms(stacks: Sequence[Stack], layers: Layers, weights: Weights) -> dict[str, Any]:
    """The place, the kind and the eps of all norms."""
    tried = []
    for each in product(_KINDS, ("pre", "post"), (False, True), (False, True)):
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
            "beginning and end of both, and none behind a part beside one before it, as Gemma has"
        )
    count, place, found, wrong = min(tried, key=lambda each: each[0])
    if wrong:
        raise ValueError(
            f"{wrong[0].name} is not as in a {place.norm}-norm model of {place.norm_kind} norms, "
            f"as {len(found) - count} of {len(found)} are; the nearest differs by "
            f"{wrong[0].difference:.2g}{_unplaced(stacks)}"
        )
    eps = [norm.eps for norm in found if norm.step is not None]
    if max(eps) - min(eps) > _SAME_EPS:
        raise ValueError(f"norm_eps differs between norms, {min(eps)} and {max(eps)}")
    for norm in found:
        if norm.step is not None:
            put(weights, norm.name, norm.step)
    return {**place._asdict(), "norm_eps": eps[0]}


def _unplaced(stacks: Sequence[Stack]) -> str:
    """A reason for a wrong norm: positions that one stack adds to the result of its first norm."""
    without = [stack.name for stack in stacks if not stack.has_positions]
    if len(without) != 1:
        return ""
    return f"; does the {without[0]} add positions behind a norm? The engine adds them before it"


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
