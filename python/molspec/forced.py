"""Forced decoding: the target is given, and only how probable the model finds it is asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from molspec._native import NO_NUMBERS, Decoded, Hypothesis, SearchStatistics
from molspec.decoding import FloatArray, IntArray
from molspec.engine.packing import BLOCK_POSITIONS


class ForcedSearch:
    """Takes the place of a search in the decode loop: the target is the only answer there is.

    What the loop knows as a query's `Source.token_ids` is its target, without BOS and EOS. All of
    it goes through the decoder in one pass, as a draft that is known to be wanted. The sum is that
    of greedy and beam search, to the bit: float64, in the order of the tokens.
    """

    def __init__(self, start_id: int, eos_id: int) -> None:
        self._start_id = start_id
        self._eos_id = eos_id
        self._targets: dict[int, Sequence[int]] = {}
        self.nodes: IntArray = np.empty((0, 4), np.int32)
        self.path_slots: IntArray = np.empty(0, np.int32)
        self.block_count = 0

    @property
    def live_count(self) -> int:
        """Queries that are not done."""
        return len(self._targets)

    def start(self, query: int, source_ids: Sequence[int]) -> None:
        """Begin a query in a free row; `source_ids` is its target."""
        self._targets[query] = source_ids

    def plan(self) -> None:
        """Stage the start token and the target of every query: a path each, in whole blocks."""
        nodes, slots = [], []
        begin = block_count = 0
        for query, target in self._targets.items():
            count = 1 + len(target)
            path = np.empty((count, 4), np.int32)
            path[:, 0] = [self._start_id, *target]
            path[:, 1] = np.arange(count)
            path[:, 2:] = begin, query
            nodes.append(path)
            slots.append(np.arange(count, dtype=np.int32) + block_count * BLOCK_POSITIONS)
            begin += count
            block_count += -(-count // BLOCK_POSITIONS)
        self.nodes = np.concatenate(nodes)
        self.path_slots = np.concatenate(slots)
        self.block_count = block_count

    def advance(self, log_probs: FloatArray) -> list[Decoded]:
        """Read log_probs [node, vocab] of the staged nodes; every query is done."""
        done = []
        begin = 0
        for query, target in self._targets.items():
            wanted = [*target, self._eos_id]
            rows = np.arange(begin, begin + len(wanted))
            done.append(_decoded(query, target, log_probs[rows, wanted]))
            begin += len(wanted)
        self._targets.clear()
        return done


def _decoded(query: int, target: Sequence[int], log_probs: FloatArray) -> Decoded:
    count = len(log_probs)
    statistics = SearchStatistics(
        steps=1, nodes=count, drafted_tokens=0, accepted_tokens=0, emitted_tokens=count
    )
    log_prob = float(np.cumsum(log_probs, dtype=np.float64)[-1])
    if not np.isfinite(log_prob):
        return Decoded(query=query, hypotheses=[], statistics=statistics, error=NO_NUMBERS)
    answer = Hypothesis(token_ids=list(target), log_prob=log_prob, finished=True)
    return Decoded(query=query, hypotheses=[answer], statistics=statistics)
