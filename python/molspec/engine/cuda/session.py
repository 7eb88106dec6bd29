"""Caches of one batch on a CUDA device: encode, step and release, replayed as captured graphs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec.engine import ops
from molspec.engine.cuda.graphs import Graphs, Staged
from molspec.engine.cuda.outbox import Outbox
from molspec.engine.packing import BLOCK_POSITIONS, PackedModel
from molspec.engine.session import check_source_length, grown

#: The nodes of the smallest captured step; sizes are powers of two from here on.
_FEWEST_NODES = 8
#: The ids of the smallest captured source.
_FEWEST_POSITIONS = 16
#: The most nodes, or ids of several sources, of one call; more are split. The kernels take 2 ** 20,
#: but the workspace grows with them: to 10 KB each for the bundled models.
MOST_ROWS = 1 << 17
#: A row of a captured step without a node (csrc/ops/steps.h).
_GAP = (0, 0, 0, -1)


class CudaSession:
    """Caches of one batch. Rows of the batch are free until `encode` and after `release`.

    A step copies its nodes in, replays the graph of the next size and copies log-probs out: one
    wait. Buffers grow to the largest step seen; a warm step allocates and captures nothing.

    All work is on the session's own stream, so freed memory returns to that stream's pool and is
    not reused while queued work reads it.

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
        self._keeps_hidden_states = False
        self._model = (packed.weights, packed.table)
        self.query_count = query_count
        self.spec = packed.spec
        self.library = library
        self.device = packed.weights.device
        self._stream: torch.cuda.Stream | None = None
        if self.device.type == "cuda":
            ops.load_cuda()  # a model may have been unpickled
            self._stream = torch.cuda.Stream(self.device)
            self._stream.wait_stream(torch.cuda.current_stream(self.device))  # the weights
        self.graphs = Graphs(self.device, self._stream) if graphs is None else graphs
        blocks = -(-packed.spec.max_positions // BLOCK_POSITIONS)
        self._host_memories = np.zeros((query_count, 1 + blocks), dtype=np.int32)
        self._free_blocks = list(reversed(range(query_count * blocks)))
        with self.on_stream():
            #: Copies values to the device, in the order of the stream.
            self.outbox = Outbox(self.device)
            self._memories = self.outbox.send(self._host_memories)
            self._memory_cache = self.cache(query_count * blocks)
            self._kv_cache = self.cache(0)
            self._workspace = torch.empty(0, dtype=torch.uint8, device=self.device)
            self._reserved_rows = 0
            longest = _power_of_two(packed.spec.max_positions)
            self.reserve(longest)  # so that no single source moves it
            self._source = torch.zeros(3 + blocks + longest, dtype=torch.int32, device=self.device)
            self._nodes = Staged((4,), torch.int32, self.device)
            self._path_slots = Staged((), torch.int32, self.device)
            states = 0, packed.spec.d_model
            self._hidden_states = torch.zeros(states, dtype=torch.float32, device=self.device)
            self._log_probs = Staged((packed.spec.target_vocab_size,), torch.float32, self.device)

    def on_stream(self) -> AbstractContextManager[object]:
        """Make the session's stream torch's current one, for all work on the device."""
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def reset(self) -> None:
        """Free all rows for other requests; requests that ended early may still have some."""
        for row in self._host_memories[:, 0].nonzero()[0].tolist():
            self.release(row)
        if self._keeps_hidden_states:  # the next request may not need them
            self._keeps_hidden_states = False
            self._hidden_states = self._hidden_states.new_empty(0, self.spec.d_model)
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

    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode sources (ids with BOS and EOS if the model needs them) into free rows.

        Raises RuntimeError if an id is out of range or a source longer than max_positions.
        """
        if not rows:
            return
        lengths = [len(source) for source in sources]
        if len(rows) > 1 and sum(lengths) > MOST_ROWS:
            half = len(rows) // 2
            self.encode(rows[:half], sources[:half])
            self.encode(rows[half:], sources[half:])
            return
        for row, length in zip(rows, lengths, strict=True):
            self._allocate(row, length)
        source_ids = np.array([i for source in sources for i in source], dtype=np.int32)
        self._check_source(source_ids)
        offsets = np.cumsum([0, *lengths], dtype=np.int32)
        memories = self._host_memories[rows]
        sent = np.concatenate([offsets, memories.reshape(-1), source_ids])  # in one piece
        with self.on_stream():
            if len(rows) == 1:
                self.outbox.put(memories[0], self._memories[rows[0]])
                self._encode_one(sent, lengths[0])
                return
            self.outbox.put(self._host_memories, self._memories)
            self.reserve(_power_of_two(sum(lengths)))
            parts = self.outbox.send(sent).split([len(offsets), memories.size, len(source_ids)])
            source = parts[2], parts[0], parts[1].view(memories.shape)
            self.library.encode(*self._model, *source, self._memory_cache, self._workspace)

    def _encode_one(self, sent: npt.NDArray[np.int32], length: int) -> None:
        """Encode a source by the graph of the next length.

        A graph reads ids up to its length; those after the offsets' end belong to no row.
        """
        self.outbox.put(sent, self._source[: len(sent)])
        size = _power_of_two(max(length, _FEWEST_POSITIONS))
        head = len(sent) - length
        self.graphs.run(
            ("encode", size),
            lambda: self.library.encode(
                *self._model,
                self._source[head : head + size],
                self._source[:2],
                self._source[2:head].unsqueeze(0),
                self._memory_cache,
                self._workspace,
            ),
        )

    def _check_source(self, source_ids: npt.NDArray[np.int32]) -> None:
        """Check the ids on the host too: to read the device's check, it would have to wait."""
        most = self.spec.source_vocab_size - 1
        wrong = source_ids[(source_ids < 0) | (source_ids > most)]
        if len(wrong):
            raise RuntimeError(f"source id {int(wrong[0])}: expected 0 to {most}")

    def _allocate(self, row: int, length: int) -> None:
        check_source_length(length, self.spec.max_positions)
        count = -(-length // BLOCK_POSITIONS)
        blocks = [self._free_blocks.pop() for _ in range(count)]
        self._host_memories[row, : 1 + count] = length, *blocks

    def release(self, row: int) -> None:
        """Free a row and the memory of its query."""
        count = -(-int(self._host_memories[row, 0]) // BLOCK_POSITIONS)
        self._free_blocks += self._host_memories[row, 1 : 1 + count].tolist()
        self._host_memories[row, 0] = 0

    def keep_hidden_states(self) -> None:
        """Store the last hidden state of every node from the next step on."""
        self._keeps_hidden_states = True

    def hidden_states(self, slots: Sequence[int]) -> Tensor:
        """Last hidden states float32 [slot, d_model] of evaluated nodes, on the device.

        The caller's stream waits for them, and their memory is valid until that stream is done.
        """
        with self.on_stream():
            states = self._hidden_states[self.outbox.send(np.array(slots, dtype=np.int64))]
        if self._stream is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(self._stream)
            states.record_stream(current)
        return states

    def step(self, nodes: np.ndarray, path_slots: np.ndarray, block_count: int) -> np.ndarray:
        """Log-probabilities [at least node, vocab] after nodes int32 [node, 4].

        See `ops.decoder_step` for nodes and path_slots; the cache grows to block_count blocks. The
        result is overwritten by the next call.
        """
        count = len(nodes)
        size = self.step_size(count)
        with self.on_stream():
            self._grow(size, len(path_slots), block_count)
            self._nodes.host[:count] = torch.from_numpy(nodes)
            self._nodes.host.numpy()[count:size] = _GAP
            self._nodes.upload(size)
            self._path_slots.host[: len(path_slots)] = torch.from_numpy(path_slots)
            self._path_slots.upload(len(path_slots))
            self.graphs.run(size, lambda: self._launch(size))
            self._log_probs.download(count)
            self.library.refuse_fault(self._workspace)  # waits
        return self._log_probs.host.numpy()

    def step_size(self, node_count: int) -> int:
        """The size of the captured graph for a step of `node_count` nodes."""
        return _power_of_two(max(node_count, _FEWEST_NODES))

    def launch(
        self,
        nodes: Tensor,
        path_slots: Tensor,
        kv_cache: Tensor,
        log_probs: Tensor,
        hidden_states: Tensor | None = None,
    ) -> None:
        """Queue passes of the decoder over nodes on the device, parents before children."""
        for begin in range(0, len(nodes), MOST_ROWS):
            part = slice(begin, begin + MOST_ROWS)
            self.library.decoder_step(
                *self._model,
                nodes[part],
                path_slots,
                self._memories,
                self._memory_cache,
                kv_cache,
                self._workspace,
                log_probs[part],
                self._hidden_states[:0] if hidden_states is None else hidden_states,
            )

    def _launch(self, size: int) -> None:
        nodes, log_probs = self._nodes.device[:size], self._log_probs.device[:size]
        self.launch(nodes, self._path_slots.device, self._kv_cache, log_probs, self._hidden_states)

    def _grow(self, size: int, path_slot_count: int, block_count: int) -> None:
        try:
            self._grow_buffers(size, path_slot_count, block_count)
        except BaseException:  # no memory, after some have moved
            self.graphs.clear()
            raise

    def _grow_buffers(self, size: int, path_slot_count: int, block_count: int) -> None:
        moved = self._nodes.grow(size) | self._log_probs.grow(size)
        moved |= self._path_slots.grow(_power_of_two(path_slot_count))
        if block_count > len(self._kv_cache):
            self._kv_cache = grown(self._kv_cache, block_count)
            moved = True
        slots = len(self._kv_cache) * BLOCK_POSITIONS
        if self._keeps_hidden_states and slots > len(self._hidden_states):
            self._hidden_states = grown(self._hidden_states, slots)
            moved = True
        if self.reserve(min(size, MOST_ROWS)) or moved:
            self.graphs.clear()

    def reserve(self, rows: int) -> bool:
        """Grow the workspace for a call of so many rows. Returns whether it has moved."""
        if rows <= self._reserved_rows:
            return False
        size: int = self.library.workspace_size(*self._model, rows, 1)
        moves = size > len(self._workspace)
        if moves:
            self._workspace = torch.empty(size, dtype=torch.uint8, device=self.device)
            self.graphs.clear()
        self._reserved_rows = rows
        return moves


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()
