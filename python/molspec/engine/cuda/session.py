"""One batch on a CUDA device: encode, step and release, replayed as captured graphs."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec._native import LIMITS, BeamSpec, GuessModel, Step
from molspec.engine.cuda.caches import FEWEST_NODES, MOST_REPLAYED, MOST_ROWS, Caches, power_of_two
from molspec.engine.cuda.executor import GraphExecutor
from molspec.engine.cuda.executors import Executors
from molspec.engine.packing import BLOCK_POSITIONS
from molspec.engine.session import Session, Source, Strategy, check_source_length

#: The ids of the smallest captured source.
_FEWEST_POSITIONS = 16
#: A row of a captured step without a node (csrc/ops/steps.h).
_GAP = (0, 0, 0, -1)


class CudaSession(Session):
    """Works in the caches of one batch. Rows are free until `encode` and after `release`.

    A step copies its nodes in, replays the graph of the next size and copies log-probs out: one
    wait. Buffers grow to the largest step seen; a warm step allocates and captures nothing.
    """

    def __init__(self, executors: Executors) -> None:
        self._executors = executors
        self._caches = caches = executors.caches
        caches.host_memories[:, 0] = 0  # all rows are free
        caches.forget_hidden_states()
        self._free_blocks = list(reversed(range(len(caches.memory_cache))))

    def executor(
        self, strategy: Strategy, source: Source, guess: GuessModel
    ) -> GraphExecutor[Any] | None:
        """The executor of a search whose rounds run on the device; None for all others.

        A lone beam looks ahead, on the host (docs/benchmarks/gpu.md); rounds on the device begin no
        answer with a prefix.
        """
        search = strategy.search
        looks_ahead = isinstance(search, BeamSpec) and search.drafts
        if source.prefix or (looks_ahead and self._caches.query_count == 1):
            return None
        return self._executors.find(search, guess)

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
        caches = self._caches
        for row, length in zip(rows, lengths, strict=True):
            self._allocate(row, length)
        source_ids = np.array([i for source in sources for i in source], dtype=np.int32)
        self._check_source(source_ids)
        offsets = np.cumsum([0, *lengths], dtype=np.int32)
        memories = caches.host_memories[rows]
        given = [offsets, memories.reshape(-1), source_ids]
        with caches.on_stream():
            if len(rows) == 1:
                caches.outbox.put(memories[0], caches.memories[rows[0]])
                self._encode_one(np.concatenate(given), lengths[0])
                return
            caches.reserve(power_of_two(sum(lengths)))
            given.append(np.array(rows, dtype=np.int32))
            sent = caches.outbox.send(np.concatenate(given))  # in one piece
            parts = sent.split([len(each) for each in given])
            source = parts[2], parts[0], parts[1].view(memories.shape)
            caches.memories[parts[3]] = source[2]
            caches.library.encode(*caches.model, *source, caches.memory_cache, caches.workspace)

    def _encode_one(self, sent: npt.NDArray[np.int32], length: int) -> None:
        """Encode a source by the graph of the next length.

        A graph reads ids up to its length; those after the offsets' end belong to no row.
        """
        caches = self._caches
        caches.outbox.put(sent, caches.source[: len(sent)])
        size = power_of_two(max(length, _FEWEST_POSITIONS))
        head = len(sent) - length

        def encode() -> None:
            sent = caches.source
            source = sent[head : head + size], sent[:2], sent[2:head].unsqueeze(0)
            caches.library.encode(*caches.model, *source, caches.memory_cache, caches.workspace)

        caches.graphs.run(("encode", size), encode)

    def _check_source(self, source_ids: npt.NDArray[np.int32]) -> None:
        """Check the ids on the host too: to read the device's check, it would have to wait."""
        most = self._caches.spec.source_vocab_size - 1
        wrong = source_ids[(source_ids < 0) | (source_ids > most)]
        if len(wrong):
            raise RuntimeError(f"source id {int(wrong[0])}: expected 0 to {most}")

    def _allocate(self, row: int, length: int) -> None:
        check_source_length(length, self._caches.spec.max_positions)
        count = -(-length // BLOCK_POSITIONS)
        blocks = [self._free_blocks.pop() for _ in range(count)]
        self._caches.host_memories[row, : 1 + count] = length, *blocks

    def release(self, row: int) -> None:
        """Free a row and the memory of its query."""
        memory = self._caches.host_memories[row]
        count = -(-int(memory[0]) // BLOCK_POSITIONS)
        self._free_blocks += memory[1 : 1 + count].tolist()
        memory[0] = 0

    def keep_hidden_states(self) -> None:
        """Store the last hidden state of every node from the next step on."""
        self._caches.keeps_hidden_states = True

    def hidden_states(self, slots: Sequence[int]) -> Tensor:
        """Last hidden states float32 [slot, d_model] of evaluated nodes, on the device.

        The caller's stream waits for them, and their memory is valid until that stream is done.
        """
        caches = self._caches
        with caches.on_stream():
            states = caches.hidden_states[caches.outbox.send(np.array(slots, dtype=np.int64))]
        if caches.stream is not None:
            current = torch.cuda.current_stream(caches.device)
            current.wait_stream(caches.stream)
            states.record_stream(current)
        return states

    def step(
        self, nodes: npt.NDArray[np.int32], path_slots: npt.NDArray[np.int32], block_count: int
    ) -> npt.NDArray[np.float32]:
        """Log-probabilities [at least node, vocab] after nodes int32 [node, 4].

        See `ops.decoder_step` for nodes and path_slots; the cache grows to block_count blocks. The
        result is overwritten by the next call.
        """
        caches, count = self._caches, len(nodes)
        size = caches.step_size(count)
        with caches.on_stream():
            caches.grow(size, len(path_slots), block_count)
            caches.nodes.host[:count] = torch.from_numpy(nodes)
            caches.nodes.host.numpy()[count:size] = _GAP
            caches.nodes.upload(size)
            caches.path_slots.host[: len(path_slots)] = torch.from_numpy(path_slots)
            caches.path_slots.upload(len(path_slots))
            caches.graphs.run(size, partial(caches.launch_step, size))
            caches.log_probs.download(count)
            caches.library.refuse_fault(caches.workspace)  # waits
        log_probs: npt.NDArray[np.float32] = caches.log_probs.host.numpy()
        return log_probs

    def prepared_step(self) -> Step | None:
        """The captured steps of the sizes so far, for rounds without Python; None before a step."""
        caches = self._caches
        if len(caches.nodes.host) == 0 or not caches.graphs.captures:
            return None
        if caches.replayed is None or caches.replayed[0] != caches.graphs.generation:
            with caches.on_stream():
                step = _replayed_step(caches)
            caches.replayed = caches.graphs.generation, step
        return caches.replayed[1]


def _replayed_step(caches: Caches) -> Step:
    """Steps of up to MOST_REPLAYED nodes, each size by its graph.

    Valid until a buffer moves.
    """
    buffers = caches.nodes, caches.path_slots, caches.log_probs
    nodes, path_slots, log_probs = buffers
    # Kernels run once before they are captured: over no nodes, since others may have the slots.
    nodes.host.numpy()[:] = _GAP
    nodes.upload(len(nodes.host))
    most = min(len(nodes.host), MOST_REPLAYED)
    sizes = [FEWEST_NODES << i for i in range((most // FEWEST_NODES).bit_length())]
    words = [
        caches.device.index or 0,
        0 if caches.stream is None else caches.stream.cuda_stream,
        *(each.data_ptr() for buffer in buffers for each in (buffer.host, buffer.device)),
        caches.workspace.data_ptr(),
        *(most, len(path_slots.host), log_probs.host.shape[1]),
        *(caches.graphs.handle(size, partial(caches.launch_step, size)) for size in sizes),
    ]
    # `Replay` of csrc/cuda/engine/replay.cpp.
    prepared = np.zeros(LIMITS["prepared_step_bytes"] // 8, dtype=np.int64)
    prepared[: len(words)] = words
    return Step(
        function=caches.library.replay_function(caches.model[0]),
        prepared=prepared.view(np.uint8),
        log_probs=log_probs.host.numpy()[:most],
        block_count=len(caches.kv_cache),
        tensors=[each for buffer in buffers for each in (buffer.host, buffer.device)],
    )
