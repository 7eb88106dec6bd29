"""The engine for any PyTorch decoder: a step is a dense batch, one row for every leaf of the tree.

This is the batch of Andronov et al. (J. Cheminform. 2025, s13321-025-00974-w): hypotheses times
drafts, padded on the left with a position offset a row. Models without offsets get their padding
on the right, where a causal decoder cannot see it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec.engine import ops
from molspec.engine.session import Session
from molspec.engine.torch.rows import IntArray, Rows, TokenPaths, split

#: The cost of a call of the model in padded columns: calls are cheap on a CPU, and a GPU computes a
#: few thousand tokens in the time of launching a decoder's kernels.
_CPU_CALL_COST, _GPU_CALL_COST = 64, 4096


@dataclass(frozen=True)
class EncoderDecoder:
    """A model as two functions of token ids.

    encode(source_ids [batch, length]) -> memory [batch, length, ...]; sources are padded on the
    right with pad_id. decode(target_ids [row, length], memory [row, length, ...],
    memory_padding_mask [row, length], position_offset [row] or None) -> logits [row, length,
    vocab]. With takes_offsets, target_ids are padded on the left and the token in column c has
    position c - position_offset; else they are padded on the right and position_offset is None.
    """

    encode: Callable[[Tensor], Tensor]
    decode: Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
    takes_offsets: bool
    pad_id: int
    device: torch.device

    def decode_unpadded(self, target_ids: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Logits of rows of one length."""
        offset = torch.zeros(len(target_ids), dtype=torch.int64, device=self.device)
        return self.decode(target_ids, memory, mask, offset if self.takes_offsets else None)


class Memories:
    """Tensors of queries in one buffer [query, length, ...] that grows to the longest source.

    They are stored when queries begin, and gathered for the decoder's rows.
    """

    def __init__(self, query_count: int) -> None:
        self._query_count = query_count
        self._buffer = torch.empty(query_count, 0, device="cpu")
        self._lengths = np.zeros(query_count, dtype=np.int64)
        self._gathered: tuple[bytes, tuple[Tensor, Tensor]] | None = None

    def store(self, rows: Sequence[int], values: Tensor, lengths: Sequence[int]) -> None:
        """Put values [row, length, ...] into free rows; each has `lengths` positions."""
        self._gathered = None
        self._lengths[list(rows)] = lengths
        old = self._buffer
        if old.shape[2:] != values.shape[2:] or old.shape[1] < values.shape[1]:
            shape = (self._query_count, values.shape[1], *values.shape[2:])
            self._buffer = values.new_zeros(shape)
            if old.shape[2:] == values.shape[2:]:
                self._buffer[:, : old.shape[1]] = old
        self._buffer[list(rows), : values.shape[1]] = values

    def gather(self, rows: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Values [row, longest, ...] and padding mask [row, longest], True if padding.

        Decoder rows mostly need the same memories as in the step before: those are copied once.
        """
        key = rows.tobytes()
        if self._gathered is None or self._gathered[0] != key:
            lengths = torch.from_numpy(self._lengths[rows])
            longest = int(lengths.max())
            trimmed = self._buffer[:, :longest]
            if np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
                values = trimmed[rows[0] : rows[-1] + 1].contiguous()
            else:
                values = trimmed.index_select(0, torch.from_numpy(rows).to(trimmed.device))
            mask = torch.arange(longest, device="cpu") >= lengths[:, None]
            self._gathered = key, (values, mask.to(trimmed.device))
        return self._gathered[1]


@dataclass(frozen=True)
class PickedNodes:
    """The staged nodes of a group of rows: their index, row in the group, position."""

    nodes: IntArray
    rows: IntArray
    positions: IntArray

    @classmethod
    def of(cls, rows: Rows, group: IntArray) -> PickedNodes:
        """The nodes of a group of rows."""
        place = np.full(len(rows.lengths), -1)
        place[group] = np.arange(len(group))
        nodes = np.flatnonzero(place[rows.node_rows] >= 0)
        return cls(nodes, place[rows.node_rows[nodes]], rows.node_positions[nodes])


class RowsSession(Session):
    """Steps a tree as dense batches. Rows are free until `encode`, after `release`."""

    def __init__(self, query_count: int, device: torch.device) -> None:
        self._device = device
        self._memories = Memories(query_count)
        self._paths = TokenPaths()

    def release(self, row: int) -> None:
        """Free a row; the next query overwrites it."""

    def step(
        self, nodes: npt.NDArray[np.int32], path_slots: npt.NDArray[np.int32], block_count: int
    ) -> npt.NDArray[np.float32]:
        """Log-probabilities [node, vocab] after the nodes; see `ops.decoder_step`.

        Raises ValueError if the model's logits do not have the shape of its input.
        """
        rows = self._paths.rows(nodes, path_slots, block_count)
        cost = _CPU_CALL_COST if self._device.type == "cpu" else _GPU_CALL_COST
        parts, order = [], []
        for group in split(self._first_columns(rows), rows.lengths, cost):
            picked = PickedNodes.of(rows, group)
            logits = self._logits(rows, group, picked, block_count)
            # In float32; for a float64 model in float64.
            dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
            parts.append(logits.log_softmax(dim=-1, dtype=dtype).to(torch.float32))
            order.append(picked.nodes)
        stacked = torch.cat(parts).cpu().numpy()  # the only wait for a device
        result: npt.NDArray[np.float32] = np.empty_like(stacked)
        result[np.concatenate(order)] = stacked
        return result

    @abstractmethod
    def _first_columns(self, rows: Rows) -> IntArray:
        """Columns of each row that are cached [row]."""

    @abstractmethod
    def _logits(self, rows: Rows, group: IntArray, picked: PickedNodes, block_count: int) -> Tensor:
        """Logits [node, vocab] of a group's nodes, by one call of the model."""


class ModuleSession(RowsSession):
    """A batch of queries on an `EncoderDecoder`."""

    def __init__(self, model: EncoderDecoder, query_count: int) -> None:
        super().__init__(query_count, model.device)
        self._model = model

    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode sources into free rows.

        Raises ValueError if the model's memory is not a tensor with one row for each source.
        """
        memory = encoded(self._model, sources)
        self._memories.store(rows, memory, [len(source) for source in sources])

    def _first_columns(self, rows: Rows) -> IntArray:
        return np.zeros_like(rows.lengths)

    def _logits(self, rows: Rows, group: IntArray, picked: PickedNodes, block_count: int) -> Tensor:
        model, pad_id = self._model, self._model.pad_id
        memory, mask = self._memories.gather(rows.memories[group])
        columns, offsets = picked.positions, None
        if model.takes_offsets:
            lengths = torch.from_numpy(rows.lengths[group])
            target_ids, begins = ops.left_pad(rows.flat(group), lengths, pad_id)
            columns, offsets = columns + begins.numpy()[picked.rows], begins.to(model.device)
        else:
            target_ids = rows.padded(group, 0, pad_id)
        logits = model.decode(target_ids.to(model.device), memory, mask, offsets)
        check_logits(logits, target_ids)
        return take(logits, picked.rows, columns)


def take(values: Tensor, rows: IntArray, columns: IntArray) -> Tensor:
    """Pick values [row, column, ...] at pairs of row and column."""
    device = values.device
    return values[torch.from_numpy(rows).to(device), torch.from_numpy(columns).to(device)]


def encoded(model: EncoderDecoder, sources: Sequence[Sequence[int]]) -> Tensor:
    """The model's memory [source, longest, ...]. Raises ValueError if it is another one."""
    source_ids = pad_right(sources, model.pad_id)
    memory = model.encode(source_ids.to(model.device))
    expected = tuple(source_ids.shape)
    if not isinstance(memory, Tensor) or tuple(memory.shape[:2]) != expected:
        raise ValueError(
            f"encode gave {_describe(memory)} for source_ids of shape {expected}: "
            f"expected a tensor [{expected[0]}, {expected[1]}, ...]"
        )
    return memory


def pad_right(sequences: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Sequences as one tensor int64 [sequence, longest]."""
    tensors = [torch.tensor(ids, dtype=torch.int64, device="cpu") for ids in sequences]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=pad_id)


def check_logits(logits: Tensor, target_ids: Tensor) -> None:
    """Raise ValueError unless there is a distribution for every target id."""
    expected = tuple(target_ids.shape)
    if not isinstance(logits, Tensor) or logits.dim() != 3 or logits.shape[:2] != expected:
        raise ValueError(
            f"decode gave {_describe(logits)} for target_ids of shape {expected}: "
            f"expected logits [{expected[0]}, {expected[1]}, vocab]"
        )


def _describe(value: object) -> str:
    """A value's shape or type, for messages."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"
