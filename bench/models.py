"""Models and batches of a given shape for the engine's operators; the weights are random."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from molspec.checkpoints.bundled import bundled_names, locate
from molspec.engine import ops
from molspec.engine.packing import BLOCK_POSITIONS, PackedModel, pack
from molspec.model.spec import ModelSpec
from molspec.model.transformer import Transformer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}
#: Source tokens of a query, and tokens decoded so far: the query is half decoded.
SOURCE_LENGTH = 65
PREFIX_LENGTH = 25


def shapes() -> Iterator[tuple[str, ModelSpec]]:
    """Name and shape of every bundled model."""
    for name in bundled_names():
        config = json.loads((locate(name) / "config.json").read_text())
        yield name, ModelSpec.from_json(config["spec"])


@cache
def packed_model(spec: ModelSpec, dtype: torch.dtype) -> PackedModel:
    """A model with random weights."""
    torch.manual_seed(0)
    return pack(spec, Transformer(spec).state_dict(), dtype)


@dataclass(frozen=True)
class Batch:
    """One query's arguments for `encode` and `decoder_step`."""

    packed: PackedModel
    source_ids: Tensor
    source_offsets: Tensor
    memories: Tensor
    nodes: Tensor
    path_slots: Tensor
    memory_cache: Tensor
    kv_cache: Tensor
    workspace: Tensor
    log_probs: Tensor

    @property
    def encode_arguments(self) -> tuple[Tensor, ...]:
        """The arguments of `ops.encode`."""
        model = (self.packed.weights, self.packed.table)
        source = (self.source_ids, self.source_offsets)
        return (*model, *source, self.memories, self.memory_cache, self.workspace)

    @property
    def step_arguments(self) -> tuple[Tensor, ...]:
        """The arguments of `ops.decoder_step`."""
        model = (self.packed.weights, self.packed.table)
        caches = (self.memories, self.memory_cache, self.kv_cache)
        return (*model, self.nodes, self.path_slots, *caches, self.workspace, self.log_probs)


def batch(packed: PackedModel, node_count: int = 1, source_length: int = SOURCE_LENGTH) -> Batch:
    """Make a query with a decoded prefix and a balanced binary tree of nodes after it."""
    spec = packed.spec
    generator = torch.Generator().manual_seed(0)
    memory_blocks = -(-source_length // BLOCK_POSITIONS)
    slot_count = PREFIX_LENGTH + node_count
    kv_blocks = -(-slot_count // BLOCK_POSITIONS)
    nodes, path_slots = _tree(node_count, spec.target_vocab_size)
    size = ops.workspace_size(
        packed.weights, packed.table, max(64, source_length), spec.max_positions
    )

    def cache(blocks: int) -> Tensor:
        shape = (blocks, spec.decoder_layers, packed.block_size)
        return torch.randn(shape, generator=generator)

    return Batch(
        packed,
        torch.randint(4, spec.source_vocab_size, (source_length,), generator=generator).int(),
        torch.tensor([0, source_length], dtype=torch.int32),
        torch.tensor([[source_length, *range(memory_blocks)]], dtype=torch.int32),
        nodes,
        path_slots,
        cache(memory_blocks),
        cache(kv_blocks),
        torch.empty(size, dtype=torch.uint8),
        torch.empty(node_count, spec.target_vocab_size),
    )


def _tree(node_count: int, vocab_size: int) -> tuple[Tensor, Tensor]:
    """Rows of nodes and path_slots; the prefix takes the first slots of the cache."""
    paths = [[*range(PREFIX_LENGTH + 1)]]
    for node in range(1, node_count):
        paths.append([*paths[(node - 1) // 2], PREFIX_LENGTH + node])
    nodes: list[list[int]] = []
    path_slots: list[int] = []
    for node, path in enumerate(paths):
        token_id = 4 + node % (vocab_size - 4)
        nodes.append([token_id, len(path) - 1, len(path_slots), 0])
        path_slots += path
    return torch.tensor(nodes, dtype=torch.int32), torch.tensor(path_slots, dtype=torch.int32)
