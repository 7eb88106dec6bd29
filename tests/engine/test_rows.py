"""Staged trees as dense calls, compared with the paths and tokens of the tree."""

import random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from molspec._native import RowsCall, RowsOptions, TokenRows

PAD = -1


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


def check(tree: Tree, staged: list[int], calls: list[RowsCall], options: RowsOptions) -> None:
    inner = {slot for node in staged for slot in tree.paths[node][:-1]}
    leaves = [slot for slot in staged if slot not in inner]
    assert sum(len(call.memories) for call in calls) == len(leaves)
    evaluated = np.concatenate([call.nodes for call in calls]).tolist()
    assert sorted(evaluated) == list(range(len(staged)))
    if len(calls) == 1:
        assert evaluated == sorted(evaluated)
    for call in calls:
        assert (call.paddings == 0).all() or options.pads_left
        for node, slot, row, column in zip(
            call.nodes, call.slots, call.rows, call.columns, strict=True
        ):
            assert slot == staged[node]
            path, begin = tree.paths[slot], call.paddings[row]
            tokens = [tree.tokens[each] for each in path]
            assert column == begin + len(path) - 1 - call.first
            assert call.cached_slots[row].tolist() == path[: call.first]
            assert call.token_ids[row, begin : column + 1].tolist() == tokens[call.first :]
            assert call.memories[row] == tree.queries[slot]
        if not options.caches:
            assert call.first == 0
        unread = np.ones(call.token_ids.shape, dtype=bool)
        for row, column in zip(call.rows, call.columns, strict=True):
            unread[row, call.paddings[row] : column + 1] = False
        assert (call.token_ids[unread] == PAD).all()
        assert unread.sum() <= options.call_cost


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(1, 7), min_size=1, max_size=6),
    st.sampled_from([0, 5, 10**6]),
    st.sampled_from([{}, {"caches": True}, {"pads_left": True}]),
)
def test_calls_have_the_paths_of_the_leaves(
    seed: int, counts: list[int], call_cost: int, kind: dict[str, bool]
) -> None:
    tree, rows = Tree(random.Random(seed)), TokenRows()
    options = RowsOptions(pad_id=PAD, call_cost=call_cost, **kind)
    for count in counts:
        staged = tree.grow(count)
        check(tree, staged, rows.calls(*tree.arrays(staged), options), options)
        tree.remove_leaf()


@pytest.mark.parametrize(("call_cost", "calls"), [(0, 3), (9, 2), (10**6, 1)])
def test_a_higher_call_cost_gives_fewer_calls(call_cost: int, calls: int) -> None:
    lengths = [20, 19, 11, 20, 19, 11, 11]
    ends = np.cumsum(lengths)
    nodes = np.zeros((ends[-1], 4), dtype=np.int32)
    path_slots: list[int] = []
    for query, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        for position in range(length):
            nodes[end - length + position] = 5, position, len(path_slots), query
            path_slots += range(end - length, end - length + position + 1)
    options = RowsOptions(pad_id=PAD, call_cost=call_cost)
    made = TokenRows().calls(nodes, np.array(path_slots, dtype=np.int32), options)
    assert len(made) == calls


def test_paths_beyond_the_slots_are_refused() -> None:
    options = RowsOptions(pad_id=PAD, call_cost=0)
    nodes = np.array([[5, 1, 0, 0]], dtype=np.int32)
    with pytest.raises(ValueError, match="path_begin is 0: expected a path within path_slots"):
        TokenRows().calls(nodes, np.zeros(1, dtype=np.int32), options)
    with pytest.raises(ValueError, match="path_slots is -1: expected slots of at least 0"):
        TokenRows().calls(nodes, np.array([0, -1], dtype=np.int32), options)
    with pytest.raises(ValueError, match="nodes and path_slots"):
        TokenRows().calls(nodes[:, :3], np.zeros(2, dtype=np.int32), options)
