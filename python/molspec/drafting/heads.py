"""Draft heads as a drafter: what the model's own last hidden state says of the tokens to come."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from molspec import _native
from molspec.decoding import Drafter, DraftTree, Path
from molspec.drafting.configurations import AnyConfiguration, HeadsDraft, LookAhead, TreeDraft
from molspec.drafting.merging import Merged, MergedDrafter, NativeParts
from molspec.model.heads import DraftHeads

#: Tokens of a head that may become nodes behind one node.
_MOST_SIBLINGS = 8


def bound(drafter: AnyConfiguration, heads: DraftHeads | None) -> AnyConfiguration:
    """A drafter with the model's heads where it drafts with such.

    Raises ValueError where it does and the model has none.
    """
    if isinstance(drafter, HeadsDraft):
        if heads is None:
            raise ValueError(
                f"drafter is {drafter.name!r}: the model has no draft heads; "
                "`molspec train-heads` trains some"
            )
        return BoundHeads(drafter, heads)
    if isinstance(drafter, Merged):
        return replace(drafter, parts=tuple(bound(part, heads) for part in drafter.parts))
    if isinstance(drafter, LookAhead) and drafter.drafter is not None:
        return replace(drafter, drafter=bound(drafter.drafter, heads))
    return drafter


@dataclass(frozen=True)
class BoundHeads:
    """A configuration with the heads that it is for."""

    configuration: HeadsDraft
    heads: DraftHeads

    def open(self, guess: _native.GuessModel) -> Drafter:
        """Make the drafter; of "tree+heads" one that merges the heads' trees with the tree's."""
        configuration = self.configuration
        own = HeadsDrafter(configuration, self.heads)
        if not configuration.tree:
            return own
        tree = TreeDraft(configuration.node_budget, min_probability=configuration.min_probability)
        return MergedDrafter([NativeParts(tree, guess), own], configuration.node_budget)


class HeadsDrafter:
    """Drafts a tree of what the heads find likeliest, each token by its own head alone."""

    wants_hidden_states = True

    def __init__(self, configuration: HeadsDraft, heads: DraftHeads) -> None:
        self._configuration = configuration
        self._heads = heads.eval()

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Nothing is kept of a query."""

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        """Draft behind every path; behind BOS alone nothing is known."""
        trees = [DraftTree()] * len(paths)
        places = [place for place, path in enumerate(paths) if path.hidden_state is not None]
        states = [state for path in paths if (state := path.hidden_state) is not None]
        if not states:
            return trees
        best_log_probs, best_ids = self._best(torch.stack(states))
        for place, log_probs, ids in zip(places, best_log_probs, best_ids, strict=True):
            trees[place] = self._tree(log_probs, ids)
        return trees

    def release(self, row: int) -> None:
        """Nothing was kept."""

    def _best(self, states: Tensor) -> tuple[list[list[list[float]]], list[list[list[int]]]]:
        """Log-probs and ids [row][head][rank] of the likeliest tokens."""
        with torch.inference_mode():
            log_probs = self._heads(states).log_softmax(dim=-1)
            best = log_probs.topk(min(_MOST_SIBLINGS, log_probs.shape[-1]))
        return best.values.tolist(), best.indices.tolist()

    def _tree(
        self, log_probs: Sequence[Sequence[float]], ids: Sequence[Sequence[int]]
    ) -> DraftTree:
        """The likeliest paths, best first: parents come before their children."""
        token_ids: list[int] = []
        parents: list[int] = []
        chances: list[float] = []
        #: (-log_prob, parent, depth, rank): behind a node come its first child and next sibling.
        waiting = [(-log_probs[0][0], -1, 0, 0)]
        while waiting and len(token_ids) < self._configuration.node_budget:
            cost, parent, depth, rank = heapq.heappop(waiting)
            if -cost < self._configuration.min_log_prob:
                break
            token_ids.append(ids[depth][rank])
            parents.append(parent)
            chances.append(-cost)
            if rank + 1 < len(ids[depth]):
                sibling = cost + log_probs[depth][rank] - log_probs[depth][rank + 1]
                heapq.heappush(waiting, (sibling, parent, depth, rank + 1))
            if depth + 1 < len(ids):
                child = cost - log_probs[depth + 1][0]
                heapq.heappush(waiting, (child, len(token_ids) - 1, depth + 1, 0))
        return DraftTree(token_ids, parents, chances)
