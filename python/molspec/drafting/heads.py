"""Draft heads as a drafter: they predict further tokens from the model's last hidden state."""

from collections.abc import Sequence

import torch

from molspec import _native
from molspec.decoding import DraftTree, Path
from molspec.drafting.options import HeadsDraft
from molspec.model.heads import DraftHeads


class HeadsDrafter:
    """Drafts a tree of the likeliest tokens, each predicted by its own head."""

    wants_hidden_states = True

    def __init__(self, heads: DraftHeads, guess: _native.GuessModel, options: HeadsDraft) -> None:
        self._heads, self._guess, self._options = heads.eval(), guess, options

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Do nothing: there is no state of a query."""

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        """Draft after every path, except BOS, which has no hidden state."""
        trees = [DraftTree()] * len(paths)
        waiting = [index for index, path in enumerate(paths) if path.hidden_state is not None]
        states = [state for path in paths if (state := path.hidden_state) is not None]
        if not states:
            return trees
        with torch.inference_mode():
            log_probs = self._heads(torch.stack(states)).log_softmax(dim=-1)
        found = _native.position_trees(
            guess_model=self._guess,
            log_probs=log_probs.float().cpu().numpy(),  # autocast gives other types
            node_budget=self._options.node_budget,
            min_log_prob=self._options.min_log_prob,
        )
        for index, tree in zip(waiting, found, strict=True):
            trees[index] = tree
        return trees

    def release(self, row: int) -> None:
        """Do nothing."""
