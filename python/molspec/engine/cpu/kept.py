"""What outlives a decode loop: large buffers, kept for the next one.

Growing them anew costs a query that comes alone a tenth of its time: the system hands out memory
page by page. A loop takes buffers that nobody else has and gives them back when it ends, however it
ends, so that threads never share any. Only memory is kept: what is in it counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from molspec import _native, ops
from molspec.engine import host
from molspec.engine.caches import grown
from molspec.engine.packing import BLOCK_POSITIONS, PackedModel

#: Bytes that wait for the next loop at most, of one model.
MOST_KEPT_BYTES = 256 * 2**20


class Buffers:
    """The caches of keys and values and the workspace of one decode loop. They only grow."""

    def __init__(self, packed: PackedModel) -> None:
        self._packed = packed
        blocks = -(-packed.spec.max_positions // BLOCK_POSITIONS)
        with torch.inference_mode(False):  # or no loop outside could write to them
            #: Row: length, then blocks of the memory cache.
            self.memories = host.empty(0, 1 + blocks, dtype=torch.int32)
            self.memory_cache = host.empty(0, packed.spec.decoder_layers, packed.block_size)
            self.kv_cache = torch.empty_like(self.memory_cache)
            self.workspace = host.empty(0, dtype=torch.uint8)
            self.hidden_states = host.empty(0, packed.spec.d_model)
            self.log_probs = host.empty(0, packed.spec.target_vocab_size)
        self._kv_blocks = 0
        #: What the workspace has room for, see `ops.workspace_size`.
        self._workspace_rows = self._workspace_positions = 0
        #: Of the buffers where they are now.
        self._prepared: _native.Step | None = None

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        caches = (self.memories, self.memory_cache, self.kv_cache, self.hidden_states)
        return sum(part.nbytes for part in (*caches, self.workspace, self.log_probs))

    def prepared_step(self) -> _native.Step:
        """A step over the buffers, good until one of them grows."""
        if self._prepared is None:
            self.make_room_for_rows()
            self._prepared = ops.prepared_step(
                self._packed.weights,
                self._packed.table,
                self.memories,
                self.memory_cache,
                self.kv_cache,
                self.workspace,
                self.log_probs,
            )
        return self._prepared

    @contextmanager
    def _moving(self) -> Iterator[None]:
        """For a buffer that is made anew: what was prepared is of the old one."""
        self._prepared = None
        with torch.inference_mode(False):  # or no loop outside could write to it
            yield

    def free_memories(self, rows: int) -> None:
        """Make room for so many rows, all of them free."""
        if rows > len(self.memories):
            with self._moving():
                self.memories = host.empty(rows, self.memories.shape[1], dtype=torch.int32)
        self.memories.numpy()[:] = 0

    def grow_memory_cache(self, blocks: int) -> None:
        """Make room for so many blocks; what is there stays."""
        if blocks > len(self.memory_cache):
            with self._moving():
                self.memory_cache = grown(self.memory_cache, blocks)

    def grow_kv_cache(self, blocks: int) -> None:
        """Make room for so many blocks; what is there stays."""
        if blocks > self._kv_blocks:
            with self._moving():
                self.kv_cache = grown(self.kv_cache, blocks)
            self._kv_blocks = len(self.kv_cache)

    def grow_hidden_states(self, slots: int) -> None:
        """Make room for so many slots; what is there stays."""
        if slots > len(self.hidden_states):
            with self._moving():
                self.hidden_states = grown(self.hidden_states, slots)

    def grow_log_probs(self, rows: int) -> None:
        """Make room for so many rows; nothing of them stays."""
        if rows > len(self.log_probs):
            with self._moving():
                self.log_probs = host.empty(
                    max(2 * len(self.log_probs), rows), self.log_probs.shape[1]
                )

    def make_room_for_rows(self) -> None:
        """Make room to work on as many nodes as there is room for their log-probs."""
        rows = min(len(self.log_probs), _native.LIMITS["chunk_rows"])
        self.grow_workspace(rows, self._packed.spec.max_positions)

    def grow_workspace(self, rows: int, positions: int) -> None:
        """Make room to work on so many rows over so many positions."""
        if rows <= self._workspace_rows and positions <= self._workspace_positions:
            return
        rows = max(rows, self._workspace_rows)
        positions = max(positions, self._workspace_positions)
        size = ops.workspace_size(self._packed.weights, self._packed.table, rows, positions)
        with self._moving():
            self.workspace = host.empty(size, dtype=torch.uint8)
        self._workspace_rows, self._workspace_positions = rows, positions


class Kept:
    """Buffers that no loop has, at most `most_bytes` of them: those given back last."""

    def __init__(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self.most_bytes = most_bytes
        self._idle: list[Buffers] = []

    def take(self, packed: PackedModel) -> Buffers:
        """Buffers that nobody else has: those given back last, or new ones."""
        try:
            return self._idle.pop()
        except IndexError:
            return Buffers(packed)

    def give_back(self, buffers: Buffers) -> None:
        """Keep the buffers, and free the oldest ones that are too many with them.

        Lists are safe between threads, and nothing is locked: this runs wherever a loop's last
        reference goes, which may be in the midst of itself.
        """
        if buffers.nbytes > self.most_bytes:
            return
        self._idle.append(buffers)
        while self.nbytes > self.most_bytes:
            with suppress(IndexError):
                self._idle.pop(0)

    @property
    def nbytes(self) -> int:
        """Memory that waits."""
        return sum(buffers.nbytes for buffers in list(self._idle))

    def free(self) -> None:
        """Give the memory that waits back to the system."""
        self._idle.clear()

    def __getstate__(self) -> dict[str, int]:
        return {"most_bytes": self.most_bytes}  # a copy begins with none

    def __setstate__(self, state: dict[str, int]) -> None:
        self.most_bytes = state["most_bytes"]
        self._idle = []
