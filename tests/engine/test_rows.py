"""Staged trees as dense rows, compared with the paths and tokens of the tree."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molspec.engine.torch.rows import Rows, TokenPaths, split


class Tree:
    """A token tree that grows step by step, as in a search; slots are reused."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.paths: dict[int, list[int]] = {}  # evaluated or staged node: slots from BOS to it
        self.tokens: dict[int, int] = {}
        self.queries: dict[int, int] = {}
        self.free = list(range(64))
        rng.shuffle(self.free)

    def grow(self, count: int) -> list[int]:
        """Stages new nodes after random earlier ones."""
        staged = []
        for _ in range(count):
            parent = self.rng.choice([*self.paths, None]) if self.paths else None
            slot = self.free.pop()
            self.paths[slot] = [*(self.paths[parent] if parent is not None else []), slot]
            self.tokens[slot] = self.rng.randrange(99)
            self.queries[slot] = (
                self.queries[parent] if parent is not None else self.rng.randrange(3)
            )
            staged.append(slot)
        return staged

    def remove_leaf(self) -> None:
        """Removes a leaf, so that its slot is reused with another token."""
        inner = {slot for path in self.paths.values() for slot in path[:-1]}
        leaves = [slot for slot in self.paths if slot not in inner]
        slot = self.rng.choice(leaves)
        del self.paths[slot]
        self.free.append(slot)

    def arrays(self, staged: list[int]) -> tuple[np.ndarray, np.ndarray]:
        nodes, path_slots = [], []
        for slot in staged:
            path = self.paths[slot]
            place = (len(path) - 1, len(path_slots), self.queries[slot])
            nodes.append((self.tokens[slot], *place))
            path_slots += path
        return np.array(nodes, dtype=np.int32), np.array(path_slots, dtype=np.int32)


def check(tree: Tree, staged: list[int], rows: Rows) -> None:
    inner = {slot for node in staged for slot in tree.paths[node][:-1]}
    leaves = [slot for slot in staged if slot not in inner]
    assert len(rows.lengths) == len(leaves)
    all_rows = np.arange(len(leaves))
    padded = rows.padded(all_rows, 0, -1).numpy()
    flat = rows.flat(all_rows).numpy()
    for row, leaf in enumerate(leaves):
        path = tree.paths[leaf]
        tokens = [tree.tokens[slot] for slot in path]
        begin, length = rows.begins[row], rows.lengths[row]
        assert rows.slots[begin : begin + length].tolist() == path
        assert flat[begin : begin + length].tolist() == tokens
        assert padded[row].tolist() == tokens + [-1] * (padded.shape[1] - length)
        assert rows.memories[row] == tree.queries[leaf]
        assert rows.evaluated[row] == sum(slot not in staged for slot in path)
    for node, slot in enumerate(staged):
        row, position = rows.node_rows[node], rows.node_positions[node]
        assert rows.slots[rows.begins[row] + position] == slot == rows.node_slots[node]


@given(st.integers(0, 10**6), st.lists(st.integers(1, 7), min_size=1, max_size=6))
def test_rows_are_the_paths_of_the_leaves(seed: int, counts: list[int]) -> None:
    tree, paths = Tree(random.Random(seed)), TokenPaths()
    for count in counts:
        staged = tree.grow(count)
        check(tree, staged, paths.rows(*tree.arrays(staged), 4))
        tree.remove_leaf()


@given(st.integers(0, 10**6))
def test_rows_can_start_at_a_later_column(seed: int) -> None:
    tree, paths = Tree(random.Random(seed)), TokenPaths()
    for _ in range(3):
        staged = tree.grow(5)
        rows = paths.rows(*tree.arrays(staged), 4)
        chosen = np.flatnonzero(rows.evaluated == rows.evaluated.max())
        first = int(rows.evaluated.max())
        whole = rows.padded(chosen, 0, -1).numpy()
        assert (rows.padded(chosen, first, -1).numpy() == whole[:, first:]).all()


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=40),
    st.integers(0, 300),
)
def test_split_partitions_the_rows_with_little_padding(
    rows: list[tuple[int, int]], call_cost: int
) -> None:
    first = np.array([begin for begin, _ in rows])
    lengths = first + np.array([count for _, count in rows])
    calls = list(split(first, lengths, call_cost))
    assert sorted(np.concatenate(calls).tolist()) == list(range(len(rows)))
    for call in calls:
        columns = (lengths[call].max() - first[call].min()) * len(call)
        assert columns - (lengths[call] - first[call]).sum() <= call_cost


@pytest.mark.parametrize(("call_cost", "calls"), [(0, 3), (9, 2), (10**6, 1)])
def test_a_higher_call_cost_gives_fewer_calls(call_cost: int, calls: int) -> None:
    lengths = np.array([20, 19, 11, 20, 19, 11, 11])
    assert len(list(split(np.zeros_like(lengths), lengths, call_cost))) == calls
