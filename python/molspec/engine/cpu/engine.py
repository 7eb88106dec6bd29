"""The native engine: a packed model, and the sessions that decode with it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec import _native
from molspec.engine import ops
from molspec.engine.packing import BLOCK_POSITIONS, PackedModel, pack
from molspec.engine.session import Session, check_source_length, grown
from molspec.model.copying import copied_between_processes
from molspec.model.spec import ModelSpec


@copied_between_processes
class NativeEngine:
    """Encodes queries and evaluates nodes of the token tree for one loaded model.

    The weights may be shared: a session has the buffers of one decode loop. When the session is
    deleted, the next one reuses them, whatever their content: growing new ones takes a tenth of the
    time of a single query, as the system provides memory page by page.
    """

    #: Maximum bytes of idle buffers; the latest ones stay.
    most_kept_bytes = 256 * 2**20

    def __init__(
        self, spec: ModelSpec, weights: Mapping[str, Tensor], dtype: torch.dtype = torch.float32
    ) -> None:
        self.spec = spec
        self.dtype = dtype
        self.packed = pack(spec, weights, dtype)
        self._idle: list[Buffers] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_idle": []}  # a copy has no idle buffers

    def session(self, query_count: int) -> NativeSession:
        """Caches for a batch of at most `query_count` queries."""
        try:
            buffers = self._idle.pop()
        except IndexError:
            buffers = Buffers(self.packed)
        session = NativeSession(self.packed, query_count, buffers)
        weakref.finalize(session, self._give_back, buffers).atexit = False
        return session

    def _give_back(self, buffers: Buffers) -> None:
        """Store the buffers for reuse, and free the oldest ones beyond the maximum.

        It takes no lock, since the garbage collector may call it at any point, even within itself;
        the lists' methods are safe between threads.
        """
        if buffers.nbytes > self.most_kept_bytes:
            return
        self._idle.append(buffers)
        while self.kept_bytes > self.most_kept_bytes:
            with suppress(IndexError):
                self._idle.pop(0)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the idle buffers."""
        return sum(buffers.nbytes for buffers in list(self._idle))

    def free_caches(self) -> None:
        """Free the idle buffers; those in use stay."""
        self._idle.clear()


class Buffers:
    """The caches of keys and values and the workspace of one decode loop. They only grow."""

    def __init__(self, packed: PackedModel) -> None:
        self._packed = packed
        spec = packed.spec
        blocks = -(-spec.max_positions // BLOCK_POSITIONS)
        cache = 0, spec.decoder_layers, packed.block_size
        shapes = cache, cache, (0, spec.d_model), (0, spec.target_vocab_size)
        with torch.inference_mode(False):  # otherwise no loop outside could write to them
            #: Row: length, then blocks of the memory cache.
            self.memories = torch.empty(0, 1 + blocks, dtype=torch.int32, device="cpu")
            self.memory_cache, self.kv_cache, self.hidden_states, self.log_probs = (
                torch.empty(shape, dtype=torch.float32, device="cpu") for shape in shapes
            )
            self.workspace = torch.empty(0, dtype=torch.uint8, device="cpu")
        #: The rows and positions that fit in the workspace, see `ops.workspace_size`.
        self._workspace_rows = self._workspace_positions = 0
        #: A step with the addresses that the buffers and the weights had.
        self._prepared: _native.Step | None = None
        self._addresses: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """Their bytes."""
        caches = (self.memories, self.memory_cache, self.kv_cache, self.hidden_states)
        return sum(part.nbytes for part in (*caches, self.workspace, self.log_probs))

    def grown(self, buffer: Tensor, rows: int) -> Tensor:
        """One of the buffers, grown to at least `rows` rows; its content stays."""
        if rows <= len(buffer):
            return buffer
        self._prepared = None  # it refers to the old buffer
        with torch.inference_mode(False):  # otherwise no loop outside could write to it
            return grown(buffer, rows)

    def grow_workspace(self, rows: int, positions: int) -> None:
        """Grow the workspace for so many rows and positions."""
        if rows <= self._workspace_rows and positions <= self._workspace_positions:
            return
        rows = max(rows, self._workspace_rows)
        positions = max(positions, self._workspace_positions)
        size = ops.workspace_size(self._packed.weights, self._packed.table, rows, positions)
        self._prepared = None
        with torch.inference_mode(False):
            self.workspace = torch.empty(size, dtype=torch.uint8, device="cpu")
        self._workspace_rows, self._workspace_positions = rows, positions

    def make_room_for_rows(self) -> None:
        """Grow the workspace for as many nodes as the log-probs' buffer has rows."""
        rows = min(len(self.log_probs), _native.LIMITS["chunk_rows"])
        self.grow_workspace(rows, self._packed.spec.max_positions)

    def prepared_step(self) -> _native.Step:
        """A step over the buffers, valid until one of them grows.

        It is made again if a tensor has moved, as `Tensor.share_memory_` does in place.
        """
        if self._prepared is None or self._addresses != self._current_addresses():
            self.make_room_for_rows()
            self._prepared = ops.prepared_step(*self._tensors())
            self._addresses = self._current_addresses()
        return self._prepared

    def _current_addresses(self) -> tuple[int, ...]:
        return tuple(tensor.data_ptr() for tensor in self._tensors())

    def _tensors(self) -> tuple[Tensor, ...]:
        """The tensors of a prepared step."""
        caches = self.memories, self.memory_cache, self.kv_cache
        return self._packed.weights, self._packed.table, *caches, self.workspace, self.log_probs


class NativeSession(Session):
    """Caches of one batch. Rows of the batch are free until `encode` and after `release`.

    Buffers grow to the largest batch seen and are then reused: a warm step allocates nothing.
    """

    def __init__(self, packed: PackedModel, query_count: int, buffers: Buffers) -> None:
        self._packed = packed
        self._buffers = buffers
        buffers.memories = buffers.grown(buffers.memories, query_count)
        self._memories_at, self._memories_view = -1, np.empty((0, 0), dtype=np.int32)
        self._memories[:] = 0  # all rows are free
        self._free_blocks = list(reversed(range(len(buffers.memory_cache))))
        self._keeps_hidden_states = False

    @property
    def _memories(self) -> npt.NDArray[np.int32]:
        memories = self._buffers.memories
        if self._memories_at != (address := memories.data_ptr()):  # it has moved
            self._memories_at, self._memories_view = address, memories.numpy()
        return self._memories_view

    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode sources (ids with BOS and EOS if the model needs them) into free rows.

        Raises RuntimeError if an id is out of range or a source longer than max_positions.
        """
        if not rows:
            return
        lengths = [len(source) for source in sources]
        for row, length in zip(rows, lengths, strict=True):
            self._allocate(row, length)
        longest = max(lengths)
        self._buffers.grow_workspace(longest, longest)
        # Through NumPy: torch takes three times as long to read a list.
        offsets = torch.from_numpy(np.array([0, *accumulate(lengths)], dtype=np.int32))
        ids = np.array([i for source in sources for i in source], dtype=np.int32)
        source = torch.from_numpy(ids), offsets, torch.from_numpy(self._memories[list(rows)])
        caches = self._buffers.memory_cache, self._buffers.workspace
        ops.encode(self._packed.weights, self._packed.table, *source, *caches)

    def _allocate(self, row: int, length: int) -> None:
        check_source_length(length, self._packed.spec.max_positions)
        needed = -(-length // BLOCK_POSITIONS)
        if needed > len(self._free_blocks):
            cache = self._buffers.memory_cache
            larger = self._buffers.grown(cache, len(cache) + needed)
            self._free_blocks += range(len(larger) - 1, len(cache) - 1, -1)
            self._buffers.memory_cache = larger
        self._memories[row, 0] = length
        self._memories[row, 1 : 1 + needed] = [self._free_blocks.pop() for _ in range(needed)]

    def release(self, row: int) -> None:
        """Free a row and the memory of its query."""
        blocks = -(-int(self._memories[row, 0]) // BLOCK_POSITIONS)
        self._free_blocks += self._memories[row, 1 : 1 + blocks].tolist()
        self._memories[row, 0] = 0

    def keep_hidden_states(self) -> None:
        """Store the last hidden state of every node from the next step on."""
        self._keeps_hidden_states = True

    def hidden_states(self, slots: Sequence[int]) -> Tensor:
        """Last hidden states float32 [slot, d_model] of evaluated nodes."""
        return self._buffers.hidden_states[list(slots)]

    def step(
        self, nodes: npt.NDArray[np.int32], path_slots: npt.NDArray[np.int32], block_count: int
    ) -> npt.NDArray[np.float32]:
        """Log-probabilities [at least node, vocab] after nodes int32 [node, 4].

        See `ops.decoder_step` for nodes and path_slots; the cache grows to block_count blocks. The
        result is overwritten by the next call.
        """
        buffers = self._buffers
        buffers.kv_cache = buffers.grown(buffers.kv_cache, block_count)
        hidden_states = buffers.hidden_states[:0]
        if self._keeps_hidden_states:
            slots = len(buffers.kv_cache) * BLOCK_POSITIONS
            hidden_states = buffers.hidden_states = buffers.grown(buffers.hidden_states, slots)
        buffers.log_probs = buffers.grown(buffers.log_probs, len(nodes))
        buffers.make_room_for_rows()
        model = self._packed.weights, self._packed.table
        tree = torch.from_numpy(nodes), torch.from_numpy(path_slots), buffers.memories
        caches = buffers.memory_cache, buffers.kv_cache, buffers.workspace
        ops.decoder_step(*model, *tree, *caches, buffers.log_probs, hidden_states)
        return buffers.log_probs.numpy()

    def prepared_step(self) -> _native.Step:
        """A prepared step without hidden states, as far as the buffers have room.

        Valid until the next call of `encode` or `step`, which may move the buffers.
        """
        return self._buffers.prepared_step()
