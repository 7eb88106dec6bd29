"""Standard beam search whose rounds run on a CUDA device (csrc/cuda/rounds/beam_rows.h)."""

from collections.abc import Sequence
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
from molspec.engine.packing import BLOCK_POSITIONS, round_up

_HEAD, _HYPOTHESIS = LAYOUTS["BeamAnswer"], LAYOUTS["BeamHypothesis"]


@dataclass(frozen=True)
class BeamSizes:
    """The sizes of a search's buffers, and the numbers in its captured graphs."""

    beam_size: int
    #: Positions of a path, BOS counted: an even number.
    capacity: int
    special_ids: tuple[int, int]
    finished_apart: bool

    @property
    def lane_size(self) -> int:
        """The slots of a lane: whole blocks."""
        return round_up(self.capacity, BLOCK_POSITIONS)

    def needs(self, caches: Caches) -> tuple[int, int]:
        """The blocks of the cache, and further bytes on the device."""
        lanes = self.beam_size * caches.query_count
        return lanes * self.lane_size // BLOCK_POSITIONS, 16 * lanes * self.lane_size


class BeamExecutor(GraphExecutor[BeamSpec]):
    """Standard beam search on a device.

    Exact beams run as such: a lookahead changes no list, so these rounds take none.
    """

    sizes: BeamSizes
    spec_type = BeamSpec
    settings = frozenset(
        {"max_length", "beam_size", "n_best", "length_penalty", "finished_apart"}
        | {"steps", "node_budget", "min_confidence"}  # of the lookahead
    )

    @staticmethod
    def _sizes_of(spec: BeamSpec, guess: GuessModel, caches: Caches) -> BeamSizes | None:
        """The sizes of beam search that fits.

        The host runs beams that exceed a block of threads, and length penalties whose norm
        overflows.
        """
        capacity = spec.max_length + 2 - spec.max_length % 2
        special_ids = guess.bos, guess.eos
        sizes = BeamSizes(spec.beam_size, capacity, special_ids, spec.finished_apart)
        fits = (
            spec.beam_size <= LIMITS["beam_size"]
            and 2 * sizes.lane_size * spec.beam_size * caches.query_count < 2**31
            and isfinite(spec.length_norm(capacity))
        )
        return sizes if fits else None

    def _make_buffers(self, spec: BeamSpec, guess: GuessModel) -> np.dtype[Any]:
        sizes, caches = self.sizes, self._caches
        rows = caches.query_count
        self._tree = self._zeros(rows, sizes.beam_size, sizes.lane_size, 2)
        self._path_slots = self._zeros(rows, 2, sizes.beam_size, sizes.capacity)
        self._length_norms = self._zeros(sizes.capacity, dtype=torch.float64)
        self._grow(0)
        blocks, _ = sizes.needs(caches)
        self._kv_cache = caches.cache(blocks)
        return np.dtype(
            [
                ("head", _HEAD),
                ("hypotheses", _HYPOTHESIS, (sizes.beam_size * (1 + sizes.finished_apart),)),
                ("token_ids", "<i4", (sizes.beam_size, sizes.capacity)),
            ]
        )

    def begin(self, spec: BeamSpec, guess: GuessModel) -> None:
        """Drop all queries and begin with a spec of the same sizes."""
        super().begin(spec, guess)
        norms = [spec.length_norm(length) for length in range(self.sizes.capacity)]
        self._caches.outbox.put(np.array(norms), self._length_norms)

    def _new_head(self) -> npt.NDArray[np.void]:
        fresh = np.zeros((), dtype=[("head", _HEAD), ("hypothesis", _HYPOTHESIS)])
        head = fresh["head"]
        head["state"], head["max_length"] = LIVE, self.spec.max_length
        head["count"] = head["live_count"] = 1
        return fresh

    def _start(self, row: int, source_ids: Sequence[int]) -> int:
        return self.sizes.beam_size

    def _grow(self, size: int) -> None:
        shape = size, self.sizes.beam_size + self.sizes.finished_apart
        #: BestTokens: with EOS, if finished hypotheses take no place in the beam.
        self._best = self._zeros(*shape), self._zeros(*shape, dtype=torch.float32)

    def _launch(self, size: int) -> None:
        library, beam_size = self._caches.library, self.sizes.beam_size
        #: BeamRows.
        beams = self._answers, self._tree, self._path_slots
        nodes, log_probs = self._nodes[:size], self._log_probs[:size]
        best = [each[:size] for each in self._best]
        path_slots: Tensor = self._path_slots.view(-1)
        library.stage_beams(beams, nodes, beam_size, self._guess.bos)
        self._caches.launch(nodes, path_slots, self._kv_cache, log_probs)
        library.rank_tokens(nodes, log_probs, best)
        library.extend_beams(beams, best, self._length_norms, beam_size, self._guess.eos)

    def _hypotheses(self, answer: np.void) -> list[Hypothesis]:
        head, kept = answer["head"], answer["hypotheses"]
        if self.sizes.finished_apart:
            best = kept[self.sizes.beam_size :][: head["finished_count"]]
        else:
            best = kept[: head["count"]]
        return [
            _hypothesis(each, token_ids)
            for each, token_ids in zip(best[: self.spec.n_best], answer["token_ids"], strict=False)
        ]


def _hypothesis(kept: np.void, token_ids: npt.NDArray[np.int32]) -> Hypothesis:
    finished = bool(kept["finished"])
    return Hypothesis(
        token_ids=token_ids[: kept["length"] - finished].tolist(),
        log_prob=float(kept["log_prob"]),
        finished=finished,
    )
