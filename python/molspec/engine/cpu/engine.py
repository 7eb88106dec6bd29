"""The native engine: a packed model, its caches, and the two calls that decoding is made of."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec import _native, ops
from molspec.engine import host
from molspec.engine.cpu.kept import Buffers, Kept
from molspec.engine.packing import BLOCK_POSITIONS, PackedModel, pack
from molspec.engine.session import Session
from molspec.model.spec import ModelSpec


class NativeEngine:
    """Encodes queries and evaluates nodes of the token tree for one loaded model.

    The weights may be shared: a session has the caches of one decode loop. When it is no more,
    they wait for the next one.
    """

    def __init__(
        self, spec: ModelSpec, weights: Mapping[str, Tensor], dtype: torch.dtype = torch.float32
    ) -> None:
        self.spec = spec
        self.dtype = dtype
        self.packed = pack(spec, weights, dtype)
        self._kept = Kept()

    def session(self, query_count: int) -> NativeSession:
        """Caches for a batch of at most `query_count` queries."""
        buffers = self._kept.take(self.packed)
        session = NativeSession(self.packed, query_count, buffers)
        weakref.finalize(session, self._kept.give_back, buffers).atexit = False
        return session

    @property
    def kept_bytes(self) -> int:
        """Memory of the caches that wait for the next session."""
        return self._kept.nbytes

    def free_caches(self) -> None:
        """Free the caches that wait for the next session; those in use stay."""
        self._kept.free()


class NativeSession(Session):
    """Caches of one batch. Rows of the batch are free until `encode` and after `release`.

    Buffers grow to the largest batch seen and are then reused: a warm step allocates nothing.
    """

    def __init__(self, packed: PackedModel, query_count: int, buffers: Buffers) -> None:
        self._packed = packed
        self._buffers = buffers
        buffers.free_memories(query_count)
        self._memories = buffers.memories.numpy()
        self._free_blocks = list(reversed(range(len(buffers.memory_cache))))
        self._keeps_hidden_states = False

    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode sources (ids with BOS and EOS where the model wants them) into free rows.

        Raises RuntimeError where an id is out of range or a source longer than max_positions.
        """
        if not rows:
            return
        lengths = [len(source) for source in sources]
        for row, length in zip(rows, lengths, strict=True):
            self._allocate(row, length)
        longest = max(lengths)
        self._buffers.grow_workspace(longest, longest)
        offsets = host.integers([0, *np.cumsum(lengths)])
        source_ids = host.integers([i for source in sources for i in source])
        memories = torch.from_numpy(self._memories[list(rows)])
        ops.encode(
            self._packed.weights,
            self._packed.table,
            source_ids,
            offsets,
            memories,
            self._buffers.memory_cache,
            self._buffers.workspace,
        )

    def _allocate(self, row: int, length: int) -> None:
        needed = -(-length // BLOCK_POSITIONS)
        if needed > len(self._free_blocks):
            count = len(self._buffers.memory_cache)
            self._buffers.grow_memory_cache(count + needed)
            self._free_blocks += range(len(self._buffers.memory_cache) - 1, count - 1, -1)
        self._memories[row, 0] = length
        self._memories[row, 1 : 1 + needed] = [self._free_blocks.pop() for _ in range(needed)]

    def release(self, row: int) -> None:
        """Free a row and the memory of its query."""
        blocks = -(-int(self._memories[row, 0]) // BLOCK_POSITIONS)
        self._free_blocks += self._memories[row, 1 : 1 + blocks].tolist()
        self._memories[row, 0] = 0

    def keep_hidden_states(self) -> None:
        """Keep the last hidden state of every node from the next step on."""
        self._keeps_hidden_states = True

    def hidden_states(self, slots: Sequence[int]) -> Tensor:
        """Last hidden states float32 [slot, d_model] of nodes that were kept."""
        return self._buffers.hidden_states[list(slots)]

    def step(
        self,
        nodes: npt.NDArray[np.int32],
        path_slots: npt.NDArray[np.int32],
        block_count: int,
    ) -> npt.NDArray[np.float32]:
        """Log-probabilities [at least node, vocab] after nodes int32 [node, 4].

        See `ops.decoder_step` for nodes and path_slots; the cache grows to block_count blocks. The
        result is overwritten by the next call.
        """
        self._buffers.grow_kv_cache(block_count)
        hidden_states = self._buffers.hidden_states[:0]
        if self._keeps_hidden_states:
            self._buffers.grow_hidden_states(len(self._buffers.kv_cache) * BLOCK_POSITIONS)
            hidden_states = self._buffers.hidden_states
        self._buffers.grow_log_probs(len(nodes))
        self._buffers.make_room_for_rows()
        ops.decoder_step(
            self._packed.weights,
            self._packed.table,
            torch.from_numpy(nodes),
            torch.from_numpy(path_slots),
            self._buffers.memories,
            self._buffers.memory_cache,
            self._buffers.kv_cache,
            self._buffers.workspace,
            self._buffers.log_probs,
            hidden_states,
        )
        return self._buffers.log_probs.numpy()

    def prepared_step(self) -> _native.Step:
        """What `step` does without hidden states, as far as there is room.

        Good until the next call of `encode` or `step`, which may move what it works in.
        """
        return self._buffers.prepared_step()
