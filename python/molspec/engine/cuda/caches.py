"""What the calls of one batch need on a CUDA device: a stream, caches, buffers, captured graphs."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molspec._native import LIMITS, Step
from molspec.engine import ops
from molspec.engine.cuda.graphs import Graphs, Staged
from molspec.engine.cuda.outbox import Outbox
from molspec.engine.packing import BLOCK_POSITIONS, PackedModel
from molspec.engine.session import grown

#: The nodes of the smallest captured step; sizes are powers of two from here on.
FEWEST_NODES = LIMITS["step_nodes"]
#: The most nodes, or ids of several sources, of one call; more are split. The kernels take 2 ** 20,
#: but the workspace grows with them: to 10 KB each for the bundled models.
MOST_ROWS = 1 << 17
#: The most nodes of a step that is replayed without Python.
MOST_REPLAYED = 1024


class Caches:
    """A stream of a device, with the caches and buffers of one batch, which only grow.

    All work is on that stream, so freed memory returns to the stream's pool and is not reused while
    queued work reads it. Captured graphs are forgotten when a buffer moves.

    `library` and `graphs` are for tests without a device.
    """

    def __init__(
        self,
        packed: PackedModel,
        query_count: int,
        library: Any = ops.library,
        graphs: Graphs | None = None,
    ) -> None:
        self._packed = packed
        self.keeps_hidden_states = False
        self.model = (packed.weights, packed.table)
        self.query_count = query_count
        self.spec = packed.spec
        self.library = library
        self.device = packed.weights.device
        self.stream: torch.cuda.Stream | None = None
        if self.device.type == "cuda":
            ops.load_cuda()  # a model may have been unpickled
            self.stream = torch.cuda.Stream(self.device)
            self.stream.wait_stream(torch.cuda.current_stream(self.device))  # the weights
        self.graphs = Graphs(self.device, self.stream) if graphs is None else graphs
        blocks = -(-packed.spec.max_positions // BLOCK_POSITIONS)
        #: Row: length, then blocks of the memory cache; 0 of a free row.
        self.host_memories = np.zeros((query_count, 1 + blocks), dtype=np.int32)
        with self.on_stream():
            #: Copies values to the device, in the order of the stream.
            self.outbox = Outbox(self.device)
            self.memories = self.outbox.send(self.host_memories)
            self.memory_cache = self.cache(query_count * blocks)
            self.kv_cache = self.cache(0)
            self.workspace = torch.empty(0, dtype=torch.uint8, device=self.device)
            self._reserved_rows = 0
            longest = power_of_two(packed.spec.max_positions)
            self.reserve(longest)  # so that no single source moves it
            self.source = torch.zeros(3 + blocks + longest, dtype=torch.int32, device=self.device)
            self.nodes = Staged((4,), torch.int32, self.device)
            self.path_slots = Staged((), torch.int32, self.device)
            states = 0, packed.spec.d_model
            self.hidden_states = torch.zeros(states, dtype=torch.float32, device=self.device)
            self.log_probs = Staged((packed.spec.target_vocab_size,), torch.float32, self.device)
        #: A prepared step over the buffers, and the generation of its graphs.
        self.replayed: tuple[int, Step] | None = None

    def on_stream(self) -> AbstractContextManager[object]:
        """Make the stream torch's current one, for all work on the device."""
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def forget_hidden_states(self) -> None:
        """Store no hidden states from the next step on."""
        if self.keeps_hidden_states:
            self.keeps_hidden_states = False
            self.hidden_states = self.hidden_states.new_empty(0, self.spec.d_model)
            self.graphs.clear()

    def cache(self, blocks: int) -> Tensor:
        """A tensor for the keys and values of so many blocks."""
        shape = (blocks, self._packed.spec.decoder_layers, self._packed.block_size)
        return torch.zeros(shape, dtype=torch.float32, device=self.device)

    def has_room(self, blocks: int, more: int = 0) -> bool:
        """Whether a cache of so many blocks and further bytes leaves half of the free memory."""
        if self.device.type == "cpu":
            return True
        size = 4 * blocks * self.spec.decoder_layers * self._packed.block_size + more
        free, _ = torch.cuda.mem_get_info(self.device)
        pooled = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return 2 * size <= free + pooled

    def step_size(self, node_count: int) -> int:
        """The size of the captured graph for a step of `node_count` nodes."""
        return power_of_two(max(node_count, FEWEST_NODES))

    def launch(
        self,
        nodes: Tensor,
        path_slots: Tensor,
        kv_cache: Tensor,
        log_probs: Tensor,
        hidden_states: Tensor | None = None,
    ) -> None:
        """Queue passes of the decoder over nodes on the device, parents before children."""
        states = self.hidden_states[:0] if hidden_states is None else hidden_states
        caches = self.memories, self.memory_cache, kv_cache, self.workspace
        for begin in range(0, len(nodes), MOST_ROWS):
            part = slice(begin, begin + MOST_ROWS)
            staged = nodes[part], path_slots
            self.library.decoder_step(*self.model, *staged, *caches, log_probs[part], states)

    def launch_step(self, size: int) -> None:
        """Queue a pass over the first nodes of the buffers."""
        nodes, log_probs = self.nodes.device[:size], self.log_probs.device[:size]
        path_slots, hidden_states = self.path_slots.device, self.hidden_states
        self.launch(nodes, path_slots, self.kv_cache, log_probs, hidden_states)

    def grow(self, size: int, path_slot_count: int, block_count: int) -> None:
        """Grow the buffers for a step of a captured size."""
        try:
            self._grow_buffers(size, path_slot_count, block_count)
        except BaseException:  # no memory, after some have moved
            self.graphs.clear()
            raise

    def _grow_buffers(self, size: int, path_slot_count: int, block_count: int) -> None:
        moved = self.nodes.grow(size) | self.log_probs.grow(size)
        # Any step that is replayed has room.
        path_slot_count = max(path_slot_count, min(size, MOST_REPLAYED) * self.spec.max_positions)
        moved |= self.path_slots.grow(power_of_two(path_slot_count))
        if block_count > len(self.kv_cache):
            self.kv_cache = grown(self.kv_cache, block_count)
            moved = True
        slots = len(self.kv_cache) * BLOCK_POSITIONS
        if self.keeps_hidden_states and slots > len(self.hidden_states):
            self.hidden_states = grown(self.hidden_states, slots)
            moved = True
        if self.reserve(min(size, MOST_ROWS)) or moved:
            self.graphs.clear()

    def reserve(self, rows: int) -> bool:
        """Grow the workspace for a call of so many rows. Returns whether it has moved."""
        if rows <= self._reserved_rows:
            return False
        size: int = self.library.workspace_size(*self.model, rows, 1)
        moves = size > len(self.workspace)
        if moves:
            self.workspace = torch.empty(size, dtype=torch.uint8, device=self.device)
            self.graphs.clear()
        self._reserved_rows = rows
        return moves


def power_of_two(least: int) -> int:
    """The least power of two that is not below."""
    return 1 << max(least - 1, 0).bit_length()
