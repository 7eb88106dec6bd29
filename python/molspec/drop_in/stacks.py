"""Records one side of a module, and cuts it into the tables of its input and its layers."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from molspec.drop_in.recording import Entered, Recorder, Step, rows_of
from molspec.engine.torch.module import EncoderDecoder

#: Two ways to compute the same float64 differ by less, as a share of the largest value.
TOLERANCE = 1e-7
#: Lengths of the recorded source and target; unequal, to tell their rows apart.
_LENGTHS = {"encoder": 7, "decoder": 5}
#: Positions from which buckets of relative positions are read.
_RELATIVE_LENGTH = 256


class Sublayer(NamedTuple):
    """An attention or a feed-forward layer: the projections of its input, and its last layer."""

    name: str
    parts: list[Step]
    outer: Step


Weights: TypeAlias = dict[str, Tensor]
Layers: TypeAlias = Mapping[str, Sequence[Sublayer]]
_Tried = TypeVar("_Tried")


class Relative(NamedTuple):
    """Tables [bucket, head] that are indexed with the buckets of distances [query, key].

    One for all layers, or one a layer.
    """

    tables: Sequence[Tensor]
    buckets: Tensor


@dataclass
class Stack:
    """One side of a module: the tables whose sum is its input, and its operations."""

    name: str
    tokens: Tensor
    positions: Tensor
    #: By relative positions, in a long sequence.
    relative: Relative | None
    recorder: Recorder
    result: Tensor
    #: Records the first attention of a sequence of all positions.
    record_longest: Callable[[], Recorder]

    @property
    def linears(self) -> list[Step]:
        """Its linear layers, in their order."""
        return [step for step in self.recorder.steps if step.is_linear]

    @property
    def norms(self) -> list[Step]:
        """Its norms, in their order."""
        return [step for step in self.recorder.steps if not step.is_linear]

    @property
    def attention_width(self) -> int:
        """Columns of all heads of an attention together: of the first attention's result."""
        linears = self.linears
        mixing = (each for each in linears if not is_same(each.entry, linears[0].entry))
        return next((each.weight.shape[1] for each in mixing), 0)

    @property
    def entry(self) -> Tensor:
        """Rows [token, d] that enter the first layer."""
        return self.tokens[self.recorder.ids[0]] + self.positions[: self.recorder.ids.shape[1]]

    @property
    def end(self) -> Tensor:
        """Rows [token, d] that leave the last layer: the memory, or the output layer's input."""
        return rows_of(self.result) if self.name == "encoder" else self.linears[-1].entry

    @property
    def has_positions(self) -> bool:
        """Whether anything tells one position from another, as far as is known."""
        return self.relative is not None or not is_same(
            self.positions, self.positions[:1].expand_as(self.positions)
        )

    def mask(self, layer: int) -> Tensor:
        """What a layer's self-attention adds to its scores, [query, key] or [head, query, key]."""
        length = len(self.entry)
        mask = self.tokens.new_zeros(length, length)
        if self.name == "decoder":
            mask = torch.full_like(mask, -torch.inf).triu(1)
        if self.relative is None:
            return mask
        table = self.relative.tables[layer % len(self.relative.tables)]
        return mask + table[self.relative.buckets[:length, :length]].permute(2, 0, 1)

    def sublayers(self, width: int) -> list[Sublayer]:
        """Its layers of attention, of `width` columns, and its feed-forward layers."""
        is_encoder = self.name == "encoder"
        linears = self.linears if is_encoder else self.linears[:-1]
        crossing = () if is_encoder else ("cross_attention",)
        kinds = ("self_attention", *crossing, "feed_forward")
        found: list[Sublayer] = []
        while linears:
            name = f"{self.name}.layers.{len(found) // len(kinds)}.{kinds[len(found) % len(kinds)]}"
            attends, parts, size = name.endswith("attention"), [linears.pop(0)], width
            while linears and (
                sum(len(part.weight) for part in parts) < 3 * width
                if attends
                else is_same(linears[0].entry, parts[0].entry)
            ):
                parts.append(linears.pop(0))
            shapes = [list(part.weight.shape) for part in (*parts, *linears[:1])]
            outer = linears.pop(0) if linears else parts[-1]
            size = outer.weight.shape[1]
            parts = [piece for part in parts for piece in pieces(part, size)]
            sizes = {len(part.weight) for part in parts}
            count_fits = len(parts) == 3 if attends else len(parts) in (1, 2)
            if not count_fits or sizes != {size} or len(outer.weight) != self.tokens.shape[1]:
                raise ValueError(
                    f"{name} has linear layers {', '.join(map(str, shapes))}: expected "
                    + (f"query, key and value of {width} columns" if attends else "one or two")
                    + f" and one back to {self.tokens.shape[1]}; is it a head with its own dense "
                    "layer, or are there fewer key heads than query heads?"
                )
            found.append(Sublayer(name, parts, outer))
        if len(found) % len(kinds):
            raise ValueError(
                f"the {self.name}'s last layer has no {kinds[len(found) % len(kinds)]}"
            )
        return found


class PositionsError(ValueError):
    """The module fails at a length; `longest` is the longest at which it works, or 0."""

    def __init__(self, message: str, longest: int) -> None:
        super().__init__(message)
        self.longest = longest


@dataclass(frozen=True)
class _Side:
    """A side of a module as it is called: the encoder, or the decoder over a memory."""

    name: str
    own: EncoderDecoder
    memory: Tensor | None

    def recorded(
        self, ids: Tensor, until: Literal["entry", "query"] | None = None
    ) -> tuple[Recorder, Tensor]:
        """The operations on ids, and the result."""
        ids = result = ids.to(self.own.device)
        # What enters the layers does not depend on the memory.
        recorder = Recorder(ids, None if until else self.memory, until)
        with suppress(Entered), recorder:
            result = self._run(ids)
        return recorder, result

    def _run(self, ids: Tensor) -> Tensor:
        if self.memory is None:
            return self.own.encode(ids)
        rows = self.memory.expand(len(ids), *self.memory.shape[1:])
        mask = torch.zeros(rows.shape[:2], dtype=torch.bool, device=self.own.device)
        return self.own.decode_unpadded(ids, rows, mask)

    def entry(self, ids: Tensor) -> Tensor:
        """Rows [token, d] that enter the layers."""
        rows = self.recorded(ids, "entry")[0].entry
        if rows is None or len(rows) != ids.numel():
            raise ValueError(
                f"no linear layer or norm of the {self.name} takes a row for each token"
            )
        return rows

    def table(self) -> Tensor:
        """The table that is indexed with the token ids."""
        ids = torch.tensor([[1, 0, 0]], device="cpu")
        for table, indices in self.recorded(ids, "entry")[0].lookups:
            if torch.equal(indices.cpu().reshape(-1), ids[0]):
                return table
        raise ValueError(f"no table of the module is indexed with the {self.name}'s token ids")

    def inputs(self, max_positions: int) -> tuple[Tensor, Tensor]:
        """A row a token and a row a position, whose sums enter the layers."""
        table = self.table()
        vocab_size = len(table)
        first = self.entry(torch.arange(vocab_size, device="cpu")[:, None])
        # Positions may not count padding.
        token_id = int(draw_ids(vocab_size, self.own.pad_id, 1))
        shifted = _longest(self.entry, token_id, max_positions)
        # What is not a multiple of the tokens' table is the first position's; only the sum counts.
        spread, usable = table - table[-1], slice(vocab_size // 2, None)
        scale = ((first - first[-1]) * spread)[usable].sum() / spread[usable].square().sum()
        zero = first[token_id] - scale.nan_to_num() * table[token_id]
        return first - zero, shifted - shifted[0] + zero


def record(
    name: str, own: EncoderDecoder, max_positions: int, memory: Tensor | None = None
) -> Stack:
    """Record the encoder, or the decoder over a memory.

    Raises ValueError if its input is not a row a token and a row a position.
    """
    side = _Side(name, own, memory)
    tokens, positions = side.inputs(max_positions)

    def drawn(length: int) -> Tensor:
        return draw_ids(len(tokens), own.pad_id, 1, min(length, max_positions))

    def record_longest() -> Recorder:
        return side.recorded(drawn(max_positions), "query")[0]

    ids = drawn(_LENGTHS[name])
    stack = Stack(name, tokens, positions, None, *side.recorded(ids), record_longest)
    if not bool(stack.result.isfinite().all()):
        raise ValueError(f"the {name} gives NaN or infinity: expected numbers; forbid ids by -1e9")
    if not is_same(side.recorded(ids)[1], stack.result):
        raise ValueError(f"the {name} gives two results for one input: is it random?")
    if not is_same(side.entry(ids), stack.entry):
        raise ValueError(
            f"the input of the {name}'s layers is not the sum of a row a token and a row a position"
        )
    if _relative(stack.recorder, ids.shape[1]) is None:
        return stack
    longer = drawn(_RELATIVE_LENGTH)
    return replace(stack, relative=_relative(side.recorded(longer)[0], longer.shape[1]))


def draw_ids(size: int, pad_id: int, *shape: int) -> Tensor:
    """Random ids of the upper half: special tokens, which modules may mask, are mostly below."""
    usable = [each for each in range(size // 2, max(size - 1, 1)) if each != pad_id] or [0]
    generator = torch.Generator("cpu").manual_seed(0)  # not torch's default device
    drawn = torch.randint(len(usable), shape, generator=generator, device="cpu")
    return torch.tensor(usable, device="cpu")[drawn]


def difference(made: Tensor, expected: Tensor) -> float:
    """Largest difference as a share of the largest value, at least 1; infinite for other shapes."""
    if made.shape != expected.shape:
        return torch.inf
    found = float((made - expected).abs().max()) / max(1.0, float(expected.abs().max()))
    return torch.inf if found != found else found


def search(what: str, expected: Tensor, tried: Iterable[tuple[_Tried, Tensor]]) -> _Tried:
    """The first of the tried that makes what is expected."""
    nearest = torch.inf
    for found, made in tried:
        if (distance := difference(made, expected)) <= TOLERANCE:
            return found
        nearest = min(nearest, distance)
    raise ValueError(f"{what}; the nearest differs by {nearest:.2g}")


def put(weights: Weights, name: str, step: Step) -> None:
    """Name the weights of a linear layer or a norm."""
    weights[f"{name}.weight"] = step.weight
    if step.bias is not None:
        weights[f"{name}.bias"] = step.bias


def is_same(made: Tensor, expected: Tensor) -> bool:
    """Whether two results differ by rounding alone."""
    return difference(made, expected) <= TOLERANCE


def pieces(step: Step, size: int) -> Iterator[Step]:
    """Cut a linear layer that makes several projections at once."""
    bias = step.weight.new_zeros(len(step.weight)) if step.bias is None else step.bias
    parts = step.weight.split(size), bias.split(size), step.result.split(size, -1)
    for weight, part, result in zip(*parts, strict=True):
        yield Step(weight, None if step.bias is None else part, step.entry, result)


def _longest(entry: Callable[[Tensor], Tensor], token_id: int, max_positions: int) -> Tensor:
    """The input [max_positions, d] of the layers for one token at every position."""

    def repeated(length: int) -> Tensor:
        return torch.full((1, length), token_id, device="cpu")

    def fails(length: int) -> bool:
        try:
            entry(repeated(length))
        except (IndexError, RuntimeError):
            return True
        return False

    try:
        return entry(repeated(max_positions))
    except (IndexError, RuntimeError) as error:
        longest = bisect_left(range(1, max_positions), True, key=fails)
        works = f"; max_positions={longest} is the longest that works" if longest else ""
        raise PositionsError(
            f"max_positions is {max_positions}: the module itself fails there, {error}{works}",
            longest,
        ) from error


def _relative(recorder: Recorder, length: int) -> Relative | None:
    """The tables of relative positions, if there are any.

    One position has no distance, and indices of its shape may be anything.
    """
    tables: dict[int, Tensor] = {}
    buckets = recorder.ids
    for table, indices in recorder.lookups:
        if length > 1 and indices.shape[-2:] == (length, length):
            tables[table.data_ptr()], buckets = table, indices.reshape(length, length)
    return Relative([*tables.values()], buckets) if tables else None
