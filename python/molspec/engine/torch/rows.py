"""A staged token tree as dense rows, one for each leaf's path, for models without trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec.engine.packing import BLOCK_POSITIONS

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Paths from BOS to the leaves of a staged tree, one after the other.

    token_ids and slots [total] belong to the paths; lengths, memories and evaluated [row] are a
    path's length, the row of its query's memory, and how many of its first nodes earlier steps
    evaluated. Node i of the staged tree, in slot node_slots[i], is in column node_positions[i] of
    row node_rows[i].
    """

    token_ids: IntArray
    slots: IntArray
    lengths: IntArray
    memories: IntArray
    evaluated: IntArray
    node_slots: IntArray
    node_rows: IntArray
    node_positions: IntArray

    @property
    def begins(self) -> IntArray:
        """The begin of each row in token_ids and slots [row]."""
        return np.cumsum(self.lengths) - self.lengths

    def flat(self, rows: IntArray) -> Tensor:
        """Token ids of some rows, one after the other [total]."""
        return torch.from_numpy(self.token_ids[_ranges(self.begins[rows], self.lengths[rows])])

    def padded(self, rows: IntArray, first: int, pad_id: int) -> Tensor:
        """Token ids of some rows from column `first` on, padded on the right [row, column]."""
        counts = self.lengths[rows] - first
        columns = _ranges(np.zeros_like(rows), counts)
        padded = np.full((len(rows), counts.max()), pad_id)
        index = np.repeat(self.begins[rows] + first, counts) + columns
        padded[np.repeat(np.arange(len(rows)), counts), columns] = self.token_ids[index]
        return torch.from_numpy(padded)


class TokenPaths:
    """Stores the token of each slot, and lays staged trees out as rows."""

    def __init__(self) -> None:
        self._token_ids = np.zeros(0, dtype=np.int64)

    def rows(
        self, nodes: npt.NDArray[np.int32], path_slots: npt.NDArray[np.int32], block_count: int
    ) -> Rows:
        """Rows for staged nodes [node, 4] and their path_slots; see `ops.decoder_step`."""
        slot_count = block_count * BLOCK_POSITIONS
        if slot_count > len(self._token_ids):
            self._token_ids = np.pad(self._token_ids, (0, slot_count - len(self._token_ids)))
        token_ids, positions, begins, memories = nodes.T.astype(np.int64)
        ends = path_slots[begins + positions]
        self._token_ids[ends] = token_ids

        is_parent = np.zeros(slot_count, dtype=bool)
        is_parent[path_slots[(begins + positions - 1)[positions > 0]]] = True
        leaves = np.flatnonzero(~is_parent[ends])
        lengths = positions[leaves] + 1
        slots = path_slots[_ranges(begins[leaves], lengths)].astype(np.int64)

        is_staged = np.zeros(slot_count, dtype=bool)
        is_staged[ends] = True
        # Staged nodes end their paths: nothing follows a node that is not evaluated yet.
        staged = np.add.reduceat(is_staged[slots].astype(np.int64), np.cumsum(lengths) - lengths)
        row_of = np.zeros(slot_count, dtype=np.int64)
        row_of[slots] = np.repeat(np.arange(len(leaves)), lengths)  # any row that has the slot
        return Rows(
            self._token_ids[slots],
            slots,
            lengths,
            memories[leaves],
            lengths - staged,
            ends,
            row_of[ends],
            positions,
        )


def _ranges(begins: IntArray, counts: IntArray) -> IntArray:
    """begins[0], begins[0] + 1, ... (counts[0] of them), then the same for begins[1], ..."""
    before = np.cumsum(counts) - counts
    return np.repeat(begins - before, counts) + np.arange(counts.sum())


def split(first: IntArray, lengths: IntArray, call_cost: int) -> Iterator[IntArray]:
    """Split rows into calls, each a rectangle of columns; yield the indices of a call's rows.

    Row i needs the columns from first[i] to lengths[i]. Rows that differ much are cheaper in two
    calls than padded to one; `call_cost` is the cost of a call in padded columns.
    """
    group: list[int] = []
    least = longest = needed = 0
    for row in np.lexsort((lengths, first))[::-1].tolist():
        begin, end = int(first[row]), int(lengths[row])
        if group:
            size = (max(longest, end) - min(least, begin)) * (len(group) + 1)
            if size - needed - (end - begin) > call_cost:
                yield np.array(group)
                group = []
        if not group:
            least, longest, needed = begin, end, 0
        group.append(row)
        least, longest, needed = min(least, begin), max(longest, end), needed + end - begin
    if group:
        yield np.array(group)
