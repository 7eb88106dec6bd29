"""Several drafters as one: their trees merged under one budget."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack

from molspec import _native
from molspec.decoding import (
    Drafter,
    DraftTree,
    EncoderDrafter,
    Path,
    propose,
    wants_hidden_states,
)


class MergedDrafter:
    """Calls several drafters and merges their trees."""

    def __init__(
        self, drafters: Sequence[Drafter], node_budget: int, guess: _native.GuessModel
    ) -> None:
        self._drafters, self._guess = drafters, guess
        self.wants_hidden_states = any(map(wants_hidden_states, drafters))
        self._node_budget = node_budget

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Begin a query in all drafters; if one fails, in none."""
        with ExitStack() as begun:
            for drafter in self._drafters:
                drafter.start(row, source_ids)
                begun.callback(drafter.release, row)
            begun.pop_all()

    def read(self, row: int, source_ids: Sequence[int], encoder_ids: Sequence[int]) -> None:
        """Give a query's encoder ids to the drafters that encode them."""
        for drafter in self._drafters:
            if isinstance(drafter, EncoderDrafter):
                drafter.read(row, source_ids, encoder_ids)

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        """Draft after every path."""
        proposed = [propose(drafter, paths, self._guess) for drafter in self._drafters]
        return [merge(trees, self._node_budget) for trees in zip(*proposed, strict=True)]

    def release(self, row: int) -> None:
        """End a query in every drafter, even if one fails."""
        with ExitStack() as ending:
            for drafter in self._drafters:
                ending.callback(drafter.release, row)


def merge(trees: Sequence[DraftTree], node_budget: int) -> DraftTree:
    """The likeliest nodes of several trees after one path, with averaged probabilities."""
    nodes: dict[tuple[int, int], int] = {}  # by parent and token, parents before children
    weights: defaultdict[int, float] = defaultdict(float)
    for tree in trees:
        places, believed = {-1: -1}, {-1: 1.0}
        for index, (token_id, parent, log_prob) in enumerate(
            zip(tree.token_ids, tree.parents, tree.log_probs, strict=True)
        ):
            place = nodes.setdefault((places[parent], token_id), len(nodes))
            places[index] = place
            # At most its parent's; for a repeated token the greater one.
            belief = min(math.exp(log_prob), believed[places[parent]])
            believed[place] = max(belief, believed.get(place, 0.0))
        del believed[-1]
        for place, belief in believed.items():
            weights[place] += belief / len(trees)
    kept = sorted(sorted(weights, key=lambda node: (-weights[node], node))[:node_budget])
    number = {-1: -1, **{node: index for index, node in enumerate(kept)}}
    keys = list(nodes)
    return DraftTree(
        [keys[node][1] for node in kept],
        [number[keys[node][0]] for node in kept],
        [math.log(weights[node]) if weights[node] else -math.inf for node in kept],
    )
