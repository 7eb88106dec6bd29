"""The engine for any PyTorch decoder: a step is a dense batch, one row for every leaf of the tree.

This is the batch of Andronov et al. (J. Cheminform. 2025, s13321-025-00974-w): hypotheses times
drafts, padded on the left with a position offset a row. Models without offsets get their padding
on the right, where a causal decoder cannot see it.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec._native import RowsCall, RowsOptions, TokenRows
from molspec.engine.session import Session

#: The cost of a call of the model in padded columns: calls are cheap on a CPU, and a GPU computes a
#: few thousand tokens in the time of launching a decoder's kernels.
_CPU_CALL_COST, _GPU_CALL_COST = 64, 4096

#: What a user's model raises if an input does not suit it.
MODEL_ERRORS = (AssertionError, IndexError, RuntimeError)


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


class RowsSession(Session):
    """Steps a tree as dense batches, a row for every leaf.

    Rows are free until `encode`, after `release`.

    caches: the model reads cached columns. pads_left: rows are padded on the left.
    """

    def __init__(
        self,
        query_count: int,
        device: torch.device,
        pad_id: int,
        *,
        caches: bool = False,
        pads_left: bool = False,
    ) -> None:
        self._device = device
        self._memories = Memories(query_count)
        cost = _CPU_CALL_COST if device.type == "cpu" else _GPU_CALL_COST
        self._rows = TokenRows()
        self._layout = RowsOptions(
            pad_id=pad_id, call_cost=cost, caches=caches, pads_left=pads_left
        )

    def release(self, row: int) -> None:
        """Free a row; the next query overwrites it."""

    def step(
        self, nodes: npt.NDArray[np.int32], path_slots: npt.NDArray[np.int32], block_count: int
    ) -> npt.NDArray[np.float32]:
        """Log-probabilities [node, vocab] after the nodes; see `ops.decoder_step`.

        Raises ValueError if the model's logits do not have the shape of its input.
        """
        calls = self._rows.calls(nodes, path_slots, self._layout)
        parts = []
        for call in calls:
            logits = self._logits(call, block_count)
            # In float32; for a float64 model in float64.
            dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
            parts.append(logits.log_softmax(dim=-1, dtype=dtype).to(torch.float32))
        if len(calls) == 1:  # its nodes are in their order
            only: npt.NDArray[np.float32] = parts[0].cpu().numpy()
            return only
        stacked = torch.cat(parts).cpu().numpy()  # the only wait for a device
        result: npt.NDArray[np.float32] = np.empty_like(stacked)
        result[np.concatenate([call.nodes for call in calls])] = stacked
        return result

    @abstractmethod
    def _logits(self, call: RowsCall, block_count: int) -> Tensor:
        """Logits [node, vocab] of a call's nodes."""


class ModuleSession(RowsSession):
    """A batch of queries on an `EncoderDecoder`."""

    def __init__(self, model: EncoderDecoder, query_count: int) -> None:
        super().__init__(query_count, model.device, model.pad_id, pads_left=model.takes_offsets)
        self._model = model

    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode sources into free rows.

        Raises ValueError if the model's memory is not a tensor with one row for each source.
        """
        memory = encoded(self._model, sources)
        self._memories.store(rows, memory, [len(source) for source in sources])

    def _logits(self, call: RowsCall, block_count: int) -> Tensor:
        memory, mask = self._memories.gather(call.memories)
        target_ids = on_device(call.token_ids, self._device)
        paddings = on_device(call.paddings, self._device) if self._model.takes_offsets else None
        # Functions may change a mask in place; the next step has it too.
        logits = self._model.decode(target_ids, memory, mask.clone(), paddings)
        check_logits(logits, target_ids)
        return logits[on_device(call.rows, self._device), on_device(call.columns, self._device)]


def on_device(values: npt.NDArray[np.int64], device: torch.device) -> Tensor:
    """Whole numbers as a tensor."""
    return torch.from_numpy(values).to(device)


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
    if not logits.is_floating_point():
        raise ValueError(f"decode gave a tensor of {logits.dtype}: expected floating-point logits")


def _describe(value: object) -> str:
    """A value's shape or type, for messages."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"
