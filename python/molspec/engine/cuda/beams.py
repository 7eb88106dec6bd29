"""Beam searches whose rounds run on a CUDA device, with trees (csrc/cuda/rounds/beam_rows.h)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec._native import LAYOUTS, LIMITS, BeamSpec, GuessModel, Hypothesis
from molspec.engine.cuda.caches import Caches
from molspec.engine.cuda.executor import LIVE, GraphExecutor
from molspec.engine.packing import BLOCK_POSITIONS

_HEAD, _PLACE = LAYOUTS["BeamAnswer"], LAYOUTS["BeamPlace"]
_NODE_FIELDS = len(LAYOUTS["BeamNode"].names or ())


@dataclass(frozen=True)
class TreeSizes:
    """The sizes of a search's buffers, and the numbers in its captured graphs."""

    beam_size: int
    #: Positions of a path, BOS counted: an even number.
    capacity: int
    special_ids: tuple[int, int]
    finished_apart: bool

    @property
    def places(self) -> int:
        """The number of hypotheses in a row of answers."""
        return self.beam_size * (1 + self.finished_apart)

    @property
    def candidates(self) -> int:
        """The number of tokens of a hypothesis that may be chosen."""
        return self.beam_size + self.finished_apart

    @property
    def blocks(self) -> int:
        """The blocks of a query's tree: the paths of all hypotheses, and BeamRows::reserve."""
        reserve = 2 * self.beam_size
        return -(-(self.places * self.capacity + reserve) // BLOCK_POSITIONS)

    @property
    def nodes(self) -> int:
        """The nodes of a query's tree."""
        return self.blocks * BLOCK_POSITIONS

    def fit(self, caches: Caches, length_norm: Callable[[int], float]) -> bool:
        """Whether the rounds of such a search can run on a device with room for it.

        The host runs beams that exceed a block of threads, and length penalties whose norm
        overflows.
        """
        return (
            self.beam_size <= LIMITS["beam_size"]
            and self.nodes <= LIMITS["beam_nodes"]
            and self.nodes * caches.query_count * self.capacity < 2**31
            and isfinite(length_norm(self.capacity))
        )

    def needs(self, caches: Caches) -> tuple[int, int]:
        """The blocks of the cache, and further bytes on the device."""
        slots = self.nodes * caches.query_count
        slot_size = 4 * (self.capacity + _NODE_FIELDS + 2 * self.candidates)
        return slots // BLOCK_POSITIONS, slots * slot_size


class BeamExecutor(GraphExecutor[BeamSpec]):
    """Standard beam search.

    Exact beams run as such: a lookahead changes no list, so these rounds take none.
    """

    sizes: TreeSizes
    spec_type = BeamSpec
    settings = frozenset(
        {"max_length", "beam_size", "n_best", "length_penalty", "finished_apart"}
        | {"steps", "node_budget", "min_confidence"}  # of the lookahead
    )

    @staticmethod
    def _sizes_of(spec: BeamSpec, guess: GuessModel, caches: Caches) -> TreeSizes | None:
        """The sizes of beam search that fits."""
        capacity = spec.max_length + 2 - spec.max_length % 2
        special_ids = guess.bos, guess.eos
        sizes = TreeSizes(spec.beam_size, capacity, special_ids, spec.finished_apart)
        return sizes if sizes.fit(caches, spec.length_norm) else None

    def _make_buffers(self, spec: BeamSpec, guess: GuessModel) -> np.dtype[Any]:
        sizes, caches = self.sizes, self._caches
        rows = caches.query_count
        self._path_slots = self._zeros(rows, sizes.nodes, sizes.capacity)
        #: BeamTrees.
        self._trees = (
            self._zeros(rows, sizes.nodes, _NODE_FIELDS),
            self._zeros(rows, sizes.blocks),
            self._path_slots,
            self._zeros(rows, sizes.beam_size),
        )
        self._length_norms = self._zeros(sizes.capacity, dtype=torch.float64)
        #: BestTokens.
        self._best = (
            self._zeros(rows * sizes.nodes, sizes.candidates),
            self._zeros(rows * sizes.nodes, sizes.candidates, dtype=torch.float32),
        )
        self._kv_cache = caches.cache(rows * sizes.blocks)
        return np.dtype(
            [
                ("head", _HEAD),
                ("places", _PLACE, (sizes.places,)),
                ("token_ids", "<i4", (sizes.beam_size, sizes.capacity)),
            ]
        )

    def begin(self, spec: BeamSpec, guess: GuessModel) -> None:
        """Drop all queries and begin with a spec of the same sizes."""
        super().begin(spec, guess)
        norms = [spec.length_norm(length) for length in range(self.sizes.capacity)]
        self._caches.outbox.put(np.array(norms), self._length_norms)

    def _new_head(self) -> npt.NDArray[np.void]:
        fresh = np.zeros((), dtype=[("head", _HEAD), ("place", _PLACE)])
        head = fresh["head"]
        head["state"], head["max_length"] = LIVE, self.spec.max_length
        head["count"] = head["planned_count"] = 1
        return fresh

    @property
    def _beams(self) -> tuple[Tensor, ...]:
        """BeamRows."""
        return self._answers, *self._trees

    def _launch(self, size: int) -> None:
        library, sizes = self._caches.library, self.sizes
        nodes, log_probs = self._nodes[:size], self._log_probs[:size]
        library.stage_beams(self._beams, nodes, sizes.beam_size, self._guess.bos)
        path_slots: Tensor = self._path_slots.view(-1)
        self._caches.launch(nodes, path_slots, self._kv_cache, log_probs)
        library.rank_tokens(nodes, path_slots, log_probs, *self._best)
        library.replay_beams(
            self._beams, self._best, self._length_norms, sizes.beam_size, self._guess.eos
        )

    def _start(self, row: int, source_ids: Sequence[int]) -> int:
        return self.sizes.beam_size

    def _hypotheses(self, answer: np.void) -> list[Hypothesis]:
        head, places = answer["head"], answer["places"]
        if self.sizes.finished_apart:
            best = places[self.sizes.beam_size :][: head["finished_count"]]
        else:
            best = places[: head["count"]]
        return [
            _hypothesis(place, token_ids)
            for place, token_ids in zip(best[: self.spec.n_best], answer["token_ids"], strict=False)
        ]


def _hypothesis(place: np.void, token_ids: npt.NDArray[np.int32]) -> Hypothesis:
    finished = bool(place["finished"])
    return Hypothesis(
        token_ids=token_ids[: place["length"] - finished].tolist(),
        log_prob=float(place["log_prob"]),
        finished=finished,
    )
