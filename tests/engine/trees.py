"""Random token trees over random queries, as arguments of the engine's operators."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from molspec.engine import ops
from molspec.engine.packing import BLOCK_POSITIONS, PackedModel, pack, round_up
from tests import reference
from tests.engine.models import random_weights, spec_of


@dataclass
class Batch:
    """Encoded queries and a tree of nodes over them, slots scattered over the cache."""

    packed: PackedModel
    source_ids: Tensor
    source_offsets: Tensor
    memories: Tensor
    nodes: Tensor
    path_slots: Tensor
    paths: list[tuple[int, list[int]]]  # (query, token ids from BOS) of every node
    slot_count: int

    def caches(self) -> tuple[Tensor, Tensor]:
        layers, size = self.packed.spec.decoder_layers, self.packed.block_size
        blocks = int(self.memories[:, 1:].max()) + 1
        nan = float("nan")  # unwritten values must not be read
        return (
            torch.full((blocks, layers, size), nan),
            torch.full((self.slot_count // BLOCK_POSITIONS, layers, size), nan),
        )

    def workspace(self, library: Any = ops) -> Tensor:
        positions = self.packed.spec.max_positions
        rows = max(64, positions, len(self.nodes), len(self.source_ids))
        size = library.workspace_size(self.packed.weights, self.packed.table, rows, positions)
        return torch.full((size,), 255, dtype=torch.uint8)

    def run(
        self,
        library: Any = ops,
        workspace: Tensor | None = None,
        hidden_states: Tensor | None = None,
    ) -> Tensor:
        """Log-probs [node, vocab] by the operators of `library`."""
        memory_cache, kv_cache = self.caches()
        workspace = self.workspace(library) if workspace is None else workspace
        model = (self.packed.weights, self.packed.table)
        library.encode(
            *model, self.source_ids, self.source_offsets, self.memories, memory_cache, workspace
        )
        vocab_size = self.packed.spec.target_vocab_size
        log_probs = torch.full((len(self.nodes), vocab_size), float("nan"))
        tree = (self.nodes, self.path_slots, self.memories, memory_cache, kv_cache)
        states = log_probs.new_empty(0, 0) if hidden_states is None else hidden_states
        library.decoder_step(*model, *tree, workspace, log_probs, states)
        return log_probs

    def expected(self, weights: Mapping[str, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Log-probs and hidden states by the twin, of the random weights if none are given."""
        spec = self.packed.spec
        weights = random_weights(spec) if weights is None else weights
        sources = self.source_ids.split(self.source_offsets.diff().tolist())
        return reference.steps(spec, weights, self.packed.dtype, sources, self.paths)

    def check_hidden_states(self, tolerance: float, library: Any = ops) -> None:
        """Those of the nodes are stored by slot, as the twin has them, and change no log-prob."""
        slots = self.path_slots[self.nodes[:, 1] + self.nodes[:, 2]].long()
        others = torch.ones(self.slot_count, dtype=torch.bool).index_fill(0, slots, False)
        states = torch.full((self.slot_count, self.packed.spec.d_model), torch.nan)
        assert torch.equal(self.run(library, hidden_states=states), self.run(library))
        assert states[others].isnan().all()
        torch.testing.assert_close(states[slots], self.expected()[1], rtol=0, atol=tolerance)

    def alone(self, row: int) -> Batch:
        """A batch of one node's path and query; the last log-probs are those of the node."""
        query, path = self.paths[row]
        begin, end = self.source_offsets[query : query + 2].tolist()
        length = end - begin
        blocks = range(-(-length // BLOCK_POSITIONS))
        nodes = [[t, p, p * (p + 1) // 2, 0] for p, t in enumerate(path)]
        return Batch(
            self.packed,
            self.source_ids[begin:end],
            torch.tensor([0, length], dtype=torch.int32),
            torch.tensor([[length, *blocks]], dtype=torch.int32),
            torch.tensor(nodes, dtype=torch.int32),
            torch.tensor([s for p in range(len(path)) for s in range(p + 1)], dtype=torch.int32),
            [(0, path)],
            round_up(len(path), BLOCK_POSITIONS),
        )


def random_batch(packed: PackedModel, lengths: list[int], node_count: int, seed: int) -> Batch:
    """Queries of the given source lengths; a node's parent is a random recent node, or none."""
    rng = random.Random(seed)
    spec = packed.spec
    sources = [[rng.randrange(spec.source_vocab_size) for _ in range(n)] for n in lengths]
    blocks = [-(-n // BLOCK_POSITIONS) for n in lengths]
    order = list(range(sum(blocks)))
    rng.shuffle(order)
    memories = torch.zeros(len(lengths), 1 + max(blocks), dtype=torch.int32)
    for row, (length, count) in enumerate(zip(lengths, blocks, strict=True)):
        memories[row, 0] = length
        memories[row, 1 : 1 + count] = torch.tensor([order.pop() for _ in range(count)])
    slots = list(range((node_count + 31) // 16 * 16))
    slot_count = len(slots)
    rng.shuffle(slots)

    nodes: list[list[int]] = []
    path_slots: list[int] = []
    paths: list[tuple[int, list[int]]] = []
    tree: list[tuple[int | None, list[int]]] = []
    for _ in range(node_count):
        extensible = [i for i, (_, path) in enumerate(tree) if len(path) < spec.max_positions]
        parent = rng.choice(extensible[-4:]) if extensible and rng.random() < 0.9 else None
        query = rng.randrange(len(lengths)) if parent is None else paths[parent][0]
        ids, path = ([], []) if parent is None else (paths[parent][1], tree[parent][1])
        token_id = rng.randrange(spec.target_vocab_size)
        tree.append((parent, [*path, slots.pop()]))
        paths.append((query, [*ids, token_id]))
        nodes.append([token_id, len(ids), len(path_slots), query])
        path_slots += tree[-1][1]
    return Batch(
        packed,
        torch.tensor([i for source in sources for i in source], dtype=torch.int32),
        torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32),
        memories,
        torch.tensor(nodes, dtype=torch.int32).reshape(-1, 4),
        torch.tensor(path_slots, dtype=torch.int32),
        paths,
        slot_count,
    )


SHAPES = {
    "one token, one node": ([1], 1),
    "ragged": ([5, 17, 16, 33], 40),
    "more nodes than a chunk": ([96, 30], 150),
    "longest": ([96], 96),
    "two nodes": ([2], 2),
    "narrow": ([7], 5),
    "uneven": ([5, 17, 1], 19),
    #: On a machine with one multiprocessor it takes the wide kernels and leaves their last tile
    #: partly empty.
    "wide": ([33, 40], 70),
}


#: Changes of an "uneven" batch by the errors that tell of them, on every device.
NODE_FAULTS: dict[str, Callable[[Batch], None]] = {
    "node 0 has token id 13": lambda b: b.nodes.__setitem__((0, 0), 13),
    "node 0 has token id -1": lambda b: b.nodes.__setitem__((0, 0), -1),
    "node 2 has position 96": lambda b: b.nodes.__setitem__((2, 1), 96),
    "node 0 has its path at 70000": lambda b: b.nodes.__setitem__((0, 2), 70000),
    "memory is 9": lambda b: b.nodes.__setitem__((0, 3), 9),
    "node 0 names slot -2": lambda b: b.path_slots.__setitem__(int(b.nodes[0, 2]), -2),
    "names slot 100000": lambda b: b.path_slots.__setitem__(0, 100000),
}
SOURCE_FAULTS: dict[str, Callable[[Batch], None]] = {
    "memory 0 has length 0": lambda b: b.memories.__setitem__((0, 0), 0),
    "memory 2 names block -1": lambda b: b.memories.__setitem__((2, 1), -1),
    "source 0 has id 13": lambda b: b.source_ids.__setitem__(0, 13),
    "source 2 spans 578": lambda b: b.source_offsets.__setitem__(3, 600),
}


def batch_of(convention: str, shape: str, dtype: torch.dtype = torch.float32) -> Batch:
    spec = spec_of(convention)
    lengths, nodes = SHAPES[shape]
    packed = pack(spec, random_weights(spec), dtype)
    return random_batch(packed, lengths, nodes, seed=len(shape))
