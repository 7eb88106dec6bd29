"""Records what a PyTorch module computes from its input: linear layers, norms and look-ups.

Names and classes play no part. A weight is what meets the input in an operation without depending
on it: a parameter, a part of one, or a sum of several.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_aten = torch.ops.aten
_WITH_SUM = {_aten.addmm, _aten.baddbmm}
_PRODUCTS = {_aten.mm, _aten.bmm, *_WITH_SUM}
_REDUCTIONS = {_aten.mean, _aten.sum, _aten.var, _aten.std, _aten.var_mean, _aten.norm}
_EPS = torch.finfo(torch.float64).eps
_NORMS = {_aten.native_layer_norm, _aten._fused_rms_norm}
_RECORDED = _PRODUCTS | _NORMS
_RECORDED |= {_aten.mul, _aten.add, _aten.mul_, _aten.add_, _aten.pow, _aten.square}
_REDUCTIONS |= {_aten.linalg_vector_norm, *_NORMS}


@dataclass
class Step:
    """A linear layer, weight [out, in], or the weights [d] of a norm; rows that go in and out."""

    weight: Tensor
    bias: Tensor | None
    entry: Tensor
    result: Tensor
    #: Of a norm of torch: LayerNorm's or RMSNorm's. Norms in single operations have None.
    eps: float | None = None

    @property
    def is_linear(self) -> bool:
        """Whether this is a linear layer; otherwise it is a norm."""
        return self.weight.dim() == 2


class Entered(Exception):  # noqa: N818 - not an error
    """The input of the first layer or attention is known, and nothing else is asked for."""


@dataclass(eq=False)
class Recorder(TorchDispatchMode):
    """Records operations on what depends on `ids` and `memory`."""

    ids: Tensor
    memory: Tensor | None = None
    #: Stop at the first norm or linear layer, or at the first attention.
    until: Literal["entry", "query"] | None = None
    steps: list[Step] = field(default_factory=list)
    #: Tables that were indexed, and the indices.
    lookups: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    #: Rows that enter the first norm or linear layer.
    entry: Tensor | None = None
    #: Queries [..., head, position, column] as the first attention multiplies them with keys.
    query: Tensor | None = None

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._kept: list[Any] = [self.ids, self.memory]  # an address is of one tensor only
        self._live = {_address(each) for each in self._kept if each is not None}
        self._squared: dict[int, Tensor] = {}
        #: The address of the last step's result.
        self._last = 0

    def __torch_dispatch__(
        self, operation: Any, _: Any, arguments: tuple[Any, ...] = (), named: Any = None
    ) -> Any:
        kind, named = operation.overloadpacket, named or {}
        if kind in _REDUCTIONS | _PRODUCTS:
            self._enter(kind, arguments)
        self._attend(kind, arguments)
        given = [*arguments]
        if kind in _RECORDED and self.until != "entry":  # others may change it later in place
            given = [each.clone() if self._is_live(each) else each for each in arguments]
        result = operation(*arguments, **named)
        made = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        tensors = [each for each in tree_leaves((arguments, named)) if isinstance(each, Tensor)]
        self._kept += made
        if kind in (_aten.embedding, _aten.index):
            indices = arguments[1] if kind is _aten.embedding else arguments[1][0]
            self.lookups += [(arguments[0], indices)] if isinstance(indices, Tensor) else []
        if any(map(self._is_live, tensors)):
            self._live |= set(map(_address, made)) - {0}
            self._record(kind, arguments, given, made)
        return result

    def _is_live(self, value: object) -> bool:
        return isinstance(value, Tensor) and _address(value) in self._live

    def _enter(self, kind: Any, arguments: tuple[Any, ...]) -> None:
        first = arguments[kind in _WITH_SUM]
        if self.entry is not None or not self._is_live(first) or not first.is_floating_point():
            return
        if first.dim() > 1 < first.shape[-1] and len(rows_of(first)) == self.ids.numel():
            self.entry = rows_of(self._squared.get(_address(first), first)).clone()
            if self.until == "entry":
                raise Entered

    def _attend(self, kind: Any, arguments: tuple[Any, ...]) -> None:
        """Keep the queries of the first attention, before it takes memory for its scores."""
        fused = "_scaled_dot_product" in str(kind)
        if self.query is not None or not (fused or kind in _PRODUCTS):
            return
        query, key = arguments[:2] if fused else arguments[kind in _WITH_SUM :][:2]
        key_shape = key.shape if fused else key.mT.shape
        square = query.shape == key_shape and query.shape[-2] == self.ids.shape[-1]
        if square and self._is_live(query) and self._is_live(key):
            self.query = query.clone()
            if self.until == "query":
                raise Entered

    def _record(
        self, kind: Any, args: tuple[Any, ...], given: list[Any], made: list[Tensor]
    ) -> None:
        """Record an operation, of which `given` are the arguments as they were before it."""
        if kind in _PRODUCTS:
            *added, left, right = given[:3] if len(given) > 2 else given
            if self._is_live(args[len(added)]) and not self._is_live(args[-1]):
                weight = right[0] if right.dim() == 3 else right
                bias = added[0] if added and added[0].dim() == 1 else None
                self._add(Step(weight.T, bias, rows_of(left), rows_of(made[0])), made[0])
        elif kind in _NORMS:
            weight = given[0].new_ones(given[0].shape[-1]) if given[2] is None else given[2]
            bias = given[3] if kind is _aten.native_layer_norm else None
            eps = args[-1]
            self._add(Step(weight, bias, rows_of(given[0]), rows_of(made[0]), eps), made[0])
        elif kind in (_aten.pow, _aten.square) or (kind is _aten.mul and args[0] is args[1]):
            self._squared[_address(made[0])] = given[0]
        elif kind in (_aten.mul, _aten.add, _aten.mul_, _aten.add_):
            self._join(kind in (_aten.add, _aten.add_), args, given, made[0])

    def _join(self, is_sum: bool, args: tuple[Any, ...], given: list[Any], result: Tensor) -> None:
        """Record a product with a vector as a norm, and a sum with one as the last step's bias."""
        vectors = [
            place
            for place, each in enumerate(given[:2])
            if isinstance(each, Tensor) and each.dim() == 1 < len(each) and not self._is_live(each)
        ]
        if len(vectors) != 1 or not self._is_live(args[1 - vectors[0]]):
            return
        vector, entry = given[vectors[0]], rows_of(given[1 - vectors[0]])
        last = self.steps[-1] if self.steps else None
        follows = last is not None and _address(args[1 - vectors[0]]) == self._last
        if last is None or last.bias is not None or last.result.shape != entry.shape:
            last = None
        if is_sum and last is not None and (follows or not last.is_linear):
            last.bias = vector  # a norm may divide between its product and its sum
        elif not is_sum and last is not None and follows and not last.is_linear:
            last.weight = last.weight * vector
        elif not is_sum:
            last = Step(vector, None, entry, entry)
            self.steps.append(last)
        else:
            return
        last.result, self._last = rows_of(result).clone(), _address(result)

    def _add(self, step: Step, result: Tensor) -> None:
        step.result = step.result.clone()
        self.steps.append(step)
        self._last = _address(result)


class _Widened(TorchDispatchMode):
    """Computes in float64 what modules compute in a narrower type, as T5 its norms."""

    def __torch_dispatch__(
        self, operation: Any, _: Any, arguments: tuple[Any, ...] = (), named: Any = None
    ) -> Any:
        named = dict(named or {})
        # torch's RMSNorm without eps adds that of its type.
        if operation.overloadpacket is _aten._fused_rms_norm and arguments[3] is None:
            arguments = (*arguments[:3], _EPS)
        narrow_eps = torch.finfo(torch.float32).eps
        arguments = tuple(
            narrow_eps if isinstance(each, float) and each == _EPS else each for each in arguments
        )
        narrows = named.get("dtype") is not None and named["dtype"].is_floating_point
        if "_scaled_dot_product" in str(operation):  # reads a float32 mask as if it were float64
            arguments = tuple(map(_wide, arguments))
            named = {name: _wide(value) for name, value in named.items()}
        copies = operation.overloadpacket is _aten._to_copy
        if copies and narrows and arguments[0].dtype == torch.float64:
            named["dtype"] = torch.float64
        return operation(*arguments, **named)


def _wide(value: Any) -> Any:
    narrow = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if narrow else value


def widened(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of a module in float64 without narrower types within."""

    def run(*arguments: Any) -> Tensor:
        with _Widened():  # type: ignore[no-untyped-call]
            return function(*arguments)

    return run


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def rows_of(values: Tensor) -> Tensor:
    """Values [..., d] as rows [row, d]."""
    return values.reshape(-1, values.shape[-1])


@contextmanager
def in_float64(module: torch.nn.Module) -> Iterator[None]:
    """Hold a module's tensors in float64 for a while; afterwards it has its own tensors again.

    Functions over a module see it, while they would not see a copy. torch's fused kernels are off,
    as they hide a layer's operations.
    """
    parameters = [(each, each.data) for each in module.parameters()]
    # Hooks of torch.nn.utils.weight_norm and prune make a tensor of its own in each call.
    made = [
        (part, name, value)
        for part in module.modules()
        for name, value in vars(part).items()
        if isinstance(value, Tensor)
    ]
    buffers = [(part._buffers, dict(part._buffers)) for part in module.modules()]
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        module.double()
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        for parameter, data in parameters:
            parameter.data = data
        for owner, own in buffers:
            owner.update(own)
        for part, name, value in made:
            vars(part)[name] = value
