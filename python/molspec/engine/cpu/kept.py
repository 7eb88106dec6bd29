"""What outlives a decode loop: large buffers, kept for the next one.

Growing them anew costs a query that comes alone a tenth of its time: the system hands out memory
page by page. A loop takes buffers that nobody else has and gives them back when it ends, however it
ends, so that threads never share any. Only memory is kept: what is in it counts for nothing.
"""

from __future__ import annotations

from contextlib import suppress

import torch

from molspec.engine import host
from molspec.engine.caches import grown
from molspec.engine.packing import PackedModel

#: Bytes that wait for the next loop at most, of one model.
MOST_KEPT_BYTES = 256 * 2**20


class Buffers:
    """The caches of keys and values and the workspace of one decode loop. They only grow."""

    def __init__(self, packed: PackedModel) -> None:
        with torch.inference_mode(False):  # or no loop outside could write to them
            self.memory_cache = host.empty(0, packed.spec.decoder_layers, packed.block_size)
            self.kv_cache = torch.empty_like(self.memory_cache)
            self.workspace = host.empty(0, dtype=torch.uint8)
            self.hidden_states = host.empty(0, packed.spec.d_model)
            self.log_probs = host.empty(0, packed.spec.target_vocab_size)
        self._kv_blocks = 0
        #: What the workspace has room for, see `ops.workspace_size`.
        self.workspace_rows = self.workspace_positions = 0

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        caches = (self.memory_cache, self.kv_cache, self.hidden_states)
        return sum(part.nbytes for part in (*caches, self.workspace, self.log_probs))

    def grow_memory_cache(self, blocks: int) -> None:
        """Make room for so many blocks; what is there stays."""
        if blocks > len(self.memory_cache):
            with torch.inference_mode(False):
                self.memory_cache = grown(self.memory_cache, blocks)

    def grow_kv_cache(self, blocks: int) -> None:
        """Make room for so many blocks; what is there stays."""
        if blocks > self._kv_blocks:
            with torch.inference_mode(False):
                self.kv_cache = grown(self.kv_cache, blocks)
            self._kv_blocks = len(self.kv_cache)

    def grow_hidden_states(self, slots: int) -> None:
        """Make room for so many slots; what is there stays."""
        if slots > len(self.hidden_states):
            with torch.inference_mode(False):
                self.hidden_states = grown(self.hidden_states, slots)

    def grow_log_probs(self, rows: int) -> None:
        """Make room for so many rows; nothing of them stays."""
        if rows > len(self.log_probs):
            with torch.inference_mode(False):
                self.log_probs = host.empty(
                    max(2 * len(self.log_probs), rows), self.log_probs.shape[1]
                )

    def grow_workspace(self, size: int, rows: int, positions: int) -> None:
        """Make room for so many bytes, which are enough for so many rows and positions."""
        with torch.inference_mode(False):
            self.workspace = host.empty(size, dtype=torch.uint8)
        self.workspace_rows, self.workspace_positions = rows, positions


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
