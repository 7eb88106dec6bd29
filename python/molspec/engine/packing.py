"""Weights in the layout the native kernels read: one buffer, and a table of sizes and offsets.

A linear layer becomes panels of 64 output columns, [panel, in, 64] in float32, [panel, in / 2, 64,
2] in 16 bits and [panel, in / 4, 64, 4] in int8, so that a kernel reads memory front to back. Every
head is padded to a multiple of 16 columns and every row to a multiple of 64, with zeros that change
no sum; biases that a model does not have are zeros too. csrc/ops/model.cpp reads the table in the
order it is written here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from molspec._native import ACTIVATIONS, LIMITS, NORM_KINDS, POSITIONS
from molspec.engine import ops
from molspec.model.copying import copied_between_processes
from molspec.model.positions import relative_biases, sinusoidal_positions
from molspec.model.spec import ModelSpec

PACKING_VERSION = 3
PANEL_COLUMNS = 64
HEAD_MULTIPLE = 16
BLOCK_POSITIONS = LIMITS["block_positions"]
#: Columns that are packed at a time: whole panels, few enough for small copies.
_ROWS_AT_ONCE = 4 * PANEL_COLUMNS

#: Their numbers in the table; int8 is for the CPU only.
WEIGHT_TYPES = (torch.float32, torch.bfloat16, torch.int8)

_Made = Callable[[], tuple[Tensor, Tensor]]


@copied_between_processes
@dataclass(frozen=True)
class PackedModel:
    """A model in the operators' form."""

    weights: Tensor
    table: Tensor
    spec: ModelSpec
    dtype: torch.dtype

    @property
    def decoder_bytes(self) -> int:
        """Bytes of the matrices that a decoder pass reads."""
        return self.spec.decoder_size * self.dtype.itemsize

    @property
    def block_size(self) -> int:
        """Floats of one cache block of one decoder layer: keys and values of 16 positions."""
        head_stride = round_up(self.spec.head_dim, HEAD_MULTIPLE)
        return 2 * BLOCK_POSITIONS * self.spec.head_count * head_stride


def round_up(size: int, multiple: int) -> int:
    """Round `size` up to a multiple."""
    return (size + multiple - 1) // multiple * multiple


def inner_step(dtype: torch.dtype) -> int:
    """Inner positions that are interleaved in a panel: those that a kernel multiplies at once."""
    return {torch.float32: 1, torch.int8: 4}.get(dtype, 2)


def pack(spec: ModelSpec, weights: Mapping[str, Tensor], dtype: torch.dtype) -> PackedModel:
    """Pack weights (names and shapes of `spec.weight_shapes()`) for matrices in `dtype`.

    int8 rounds every output column of a matrix to 255 steps of its own. Embeddings, positions,
    norms and biases stay float32. Raises ValueError for a dtype that the engine lacks.
    """
    if dtype not in WEIGHT_TYPES:
        raise ValueError(f"dtype is {dtype}: expected one of {', '.join(map(str, WEIGHT_TYPES))}")
    with torch.autocast("cpu", enabled=False):  # it would change types
        return _Packer(spec, weights, dtype).pack()


class _Packer:
    def __init__(self, spec: ModelSpec, weights: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        self._spec = spec
        self._weights = weights
        self._dtype = dtype
        self._table: list[int] = []
        #: The begin and end of each part, and the function that writes it: a list of all parts
        #: would double the memory.
        self._parts: list[tuple[list[int], int, Callable[..., None]]] = []
        self._size = 0

    def pack(self) -> PackedModel:
        self._sizes()
        spec = self._spec
        if spec.rotary_columns is not None:
            self._add(self._weights["rotary"].float())
        target_embedding = "source_embedding" if spec.shared_embedding else "target_embedding"
        self._stack("encoder", "source_embedding", spec.encoder_layers)
        self._stack("decoder", target_embedding, spec.decoder_layers)
        output = self._weights[target_embedding if spec.tied_output else "output.weight"]
        bias = self._weights.get("output.bias") if spec.output_bias else None
        bias = output.new_zeros(len(output)) if bias is None else bias
        self._linear(output.shape, lambda: (output, bias))
        table = torch.tensor(self._table, dtype=torch.int64, device="cpu")
        return PackedModel(self._buffer(), table, spec, self._dtype)

    def _sizes(self) -> None:
        spec = self._spec
        self._table += [
            PACKING_VERSION,
            WEIGHT_TYPES.index(self._dtype),
            spec.d_model,
            spec.head_count,
            spec.head_dim,
            spec.feed_forward,
            spec.encoder_layers,
            spec.decoder_layers,
            spec.source_vocab_size,
            spec.target_vocab_size,
            spec.max_positions,
            int(spec.norm == "pre"),
            int(spec.final_norm),
            int(spec.embedding_norm),
            NORM_KINDS.index(spec.norm_kind),
            POSITIONS.index(self._positions_kind),
            spec.rotary_columns or 0,
            int(spec.gated),
            ACTIVATIONS.index(spec.activation),
            _bits(spec.norm_eps),
            _bits(spec.head_dim**-0.5 if spec.scale_attention else 1.0),
        ]

    @property
    def _positions_kind(self) -> str:
        if self._spec.positions == "relative":
            return "relative_by_layer" if self._spec.relative_per_layer else "relative"
        return "none" if self._spec.positions == "none" else "added"

    def _stack(self, name: str, embedding: str, layers: int) -> None:
        spec = self._spec
        scale = spec.d_model**0.5 if spec.scale_embedding else 1.0
        self._rows(self._weights[embedding].float() * scale)
        self._positions(name)
        if spec.embedding_norm:
            self._norm(f"{name}.embedding_norm")
        for index in range(layers):
            layer = f"{name}.layers.{index}"
            if self._positions_kind == "relative_by_layer":
                self._biases(layer, name)
            self._attention(f"{layer}.self_attention", ("query", "key", "value"))
            if name == "decoder":
                self._attention(f"{layer}.cross_attention", ("query",), ("key", "value"))
            for part in ("gate", "inner", "outer") if spec.gated else ("inner", "outer"):
                after_relu = part == "outer" and spec.activation == "relu" and not spec.gated
                self._named_linear(f"{layer}.feed_forward.{part}", after_relu)
            self._norm(f"{layer}.feed_forward_norm")
        if spec.final_norm:
            self._norm(f"{name}.norm")

    def _positions(self, stack: str) -> None:
        spec = self._spec
        if self._positions_kind == "relative":
            self._biases(stack, stack)
        elif spec.positions == "learned":
            side = "source" if stack == "encoder" else "target"
            self._rows(self._weights[f"{side}_positions"])
        elif spec.positions == "sinusoidal":
            self._rows(sinusoidal_positions(spec.max_positions, spec.d_model))

    def _biases(self, owner: str, stack: str) -> None:
        length = self._spec.max_positions
        table = self._weights[f"{owner}.relative_bias"]
        biases = relative_biases(table, self._spec, stack, length)
        columns = round_up(2 * length + 16, 16)  # by distance: a kernel reads 16 at once
        self._add(_padded(biases.float(), (0, columns - biases.shape[1])))

    def _attention(self, name: str, *projections: Sequence[str]) -> None:
        for parts in projections:
            self._heads(name, parts)
        weight = self._weights[f"{name}.output.weight"]

        def made() -> tuple[Tensor, Tensor]:
            by_head = weight.reshape(weight.shape[0], self._spec.head_count, self._spec.head_dim)
            padded = _padded(by_head, (0, self._head_padding)).flatten(1)
            return padded, self._bias(f"{name}.output")

        inner = self._spec.head_count * (self._spec.head_dim + self._head_padding)
        self._linear((weight.shape[0], inner), made)
        self._norm(f"{name}_norm")

    @property
    def _head_padding(self) -> int:
        return round_up(self._spec.head_dim, HEAD_MULTIPLE) - self._spec.head_dim

    def _heads(self, name: str, parts: Sequence[str]) -> None:
        """The projections of `parts` as one layer, with every head padded."""
        spec, padding = self._spec, self._head_padding

        def made() -> tuple[Tensor, Tensor]:
            weights, biases = [], []
            for part in parts:
                weight = self._weights[f"{name}.{part}.weight"]
                by_head = weight.reshape(spec.head_count, spec.head_dim, -1)
                weights.append(_padded(by_head, (0, 0, 0, padding)).flatten(0, 1))
                bias = self._bias(f"{name}.{part}").reshape(spec.head_count, -1)
                biases.append(_padded(bias, (0, padding)).flatten())
            return torch.cat(weights), torch.cat(biases)

        in_size = self._weights[f"{name}.{parts[0]}.weight"].shape[1]
        self._linear((len(parts) * spec.head_count * (spec.head_dim + padding), in_size), made)

    def _named_linear(self, name: str, after_relu: bool) -> None:
        weight = self._weights[f"{name}.weight"]
        self._linear(weight.shape, lambda: (weight, self._bias(name)), after_relu)

    def _bias(self, name: str) -> Tensor:
        bias = self._weights.get(f"{name}.bias")
        weight = self._weights[f"{name}.weight"]
        return weight.new_zeros(len(weight)) if bias is None else bias

    def _linear(self, shape: Sequence[int], made: _Made, after_relu: bool = False) -> None:
        """A layer whose weight [out, in] and bias [out] `made` returns."""
        columns = round_up(shape[0], PANEL_COLUMNS)
        step = inner_step(self._dtype)
        inner = round_up(shape[1], max(2, step))
        int8 = self._dtype == torch.int8
        sizes = [columns * inner * self._dtype.itemsize, 4 * columns]  # matrix and bias
        if int8:
            sizes += [4 * columns] * 2 + sizes[:1] * after_relu  # scales, sums, matrix by rows

        def write(panels: Tensor, biases: Tensor, *quantised: Tensor) -> None:
            weight, bias = made()
            biases.view(torch.float32)[: shape[0]] = bias
            for begin in range(0, columns, _ROWS_AT_ONCE):
                rows = weight[begin : begin + _ROWS_AT_ONCE]
                if int8:
                    vectors = quantised[0].view(torch.float32), quantised[1].view(torch.int32)
                    rows = rows.to("cpu", torch.float32).contiguous()
                    ops.pack_int8(rows, begin, panels, *vectors, *quantised[2:] or [panels[:0]])
                    continue
                padding = (0, inner - shape[1], 0, -len(rows) % PANEL_COLUMNS)
                padded = _padded(rows.to(self._dtype), padding).contiguous()
                steps = padded.view(torch.int32).view(-1, PANEL_COLUMNS, inner // step)  # 4 bytes
                by_panel = panels.view(torch.int32).view(-1, inner // step, PANEL_COLUMNS)
                _put(steps.transpose(1, 2), by_panel, begin // PANEL_COLUMNS)

        self._append(sizes, write)

    def _norm(self, name: str) -> None:
        self._rows(self._weights[f"{name}.weight"])
        self._rows(self._bias(name))

    def _rows(self, values: Tensor) -> None:
        """Rows of d_model floats, each padded to whole panels."""
        padding = round_up(values.shape[-1], PANEL_COLUMNS) - values.shape[-1]
        self._add(_padded(values.float(), (0, padding)))

    def _add(self, part: Tensor) -> None:
        flat = part.detach().contiguous().view(torch.uint8).flatten()
        self._append([part.nbytes], lambda to: _put(flat, to, 0))

    def _append(self, sizes: Sequence[int], write: Callable[..., None]) -> None:
        begins = []
        for size in sizes:
            begins.append(self._size)
            self._size += round_up(size, 64)
        self._table += begins
        self._parts.append((begins, self._size, write))

    def _buffer(self) -> Tensor:
        """The parts one after the other, from an address that is a multiple of 64."""
        buffer = torch.zeros(self._size + 64, dtype=torch.uint8, device="cpu")
        begin = -buffer.data_ptr() % 64
        aligned = buffer[begin : begin + self._size]
        for begins, end, write in self._parts:
            ends = [*begins[1:], end]
            write(*(aligned[a:b] for a, b in zip(begins, ends, strict=True)))
        return aligned


def _padded(values: Tensor, zeros: Sequence[int]) -> Tensor:
    """Values with zeros around them, as of `F.pad`, which copies them even if there are none."""
    return F.pad(values, zeros) if any(zeros) else values


def _put(part: Tensor, to: Tensor, begin: int) -> None:
    to[begin : begin + len(part)] = part


def _bits(value: float) -> int:
    """The bits of a double, for the table of integers."""
    return int(torch.tensor(value, dtype=torch.float64, device="cpu").view(torch.int64))
