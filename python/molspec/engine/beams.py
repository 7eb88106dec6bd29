"""Standard beam search whose rounds stay on a CUDA device (csrc/ops/beam_rows.h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from molspec._native import BeamSearch, Hypothesis
from molspec.engine.packing import BLOCK_POSITIONS
from molspec.engine.rounds import LIVE, ROUNDS_AHEAD, DeviceRounds

if TYPE_CHECKING:
    from molspec.engine.cuda import CudaSession

#: kWidestBeam.
_WIDEST = 64

#: BeamAnswer: the head of a row of answers.
_HEAD = np.dtype(
    [
        ("state", "<i4"),
        ("count", "<i4"),
        ("finished_count", "<i4"),
        ("live_count", "<i4"),
        ("length", "<i4"),
        ("steps", "<i4"),
        ("nodes", "<i4"),
        ("emitted_tokens", "<i4"),
        ("first_node", "<i4"),
        ("max_length", "<i4"),
    ]
)
#: BeamPlace.
_PLACE = np.dtype(
    [
        ("log_prob", "<f8"),
        ("lane", "<i4"),
        ("length", "<i4"),
        ("finished", "<i4"),
        ("unused", "<i4"),
    ]
)


@dataclass(frozen=True)
class _Sizes:
    """What the buffers of a search depend on, and the numbers that its graphs hold."""

    beam_size: int
    #: Of token ids: the beam's, and as many for those that finish apart.
    lanes: int
    #: Positions of a lane, whole blocks: its slots are those of the lane alone.
    capacity: int
    #: Tokens of a hypothesis that may be chosen.
    candidates: int
    special_ids: tuple[int, int]

    @property
    def blocks(self) -> int:
        """Of a query, in the cache."""
        return self.beam_size * self.capacity // BLOCK_POSITIONS

    @classmethod
    def of(cls, search: BeamSearch) -> _Sizes:
        options, guess = search.options, search.guess_model
        capacity = -(-options.max_length // BLOCK_POSITIONS) * BLOCK_POSITIONS
        beam_size, apart = options.beam_size, options.finished_apart
        special_ids = guess.bos, guess.eos
        return cls(beam_size, beam_size * (1 + apart), capacity, beam_size + apart, special_ids)


class BeamRounds(DeviceRounds[BeamSearch]):
    """Beam search on a session's device: buffers and graphs, for one decode loop after another.

    Raises ValueError where the search's vocabulary is not the model's.
    """

    @staticmethod
    def takes(search: object, session: CudaSession) -> bool:
        """Whether it is beam search without drafts, no wider than a block of threads holds.

        Left to the host: what takes much of the device's memory, as slots are never freed here,
        and a length penalty so high that no double holds the norm.
        """
        if not isinstance(search, BeamSearch):
            return False
        options = search.options
        norm = options.length_norm(options.max_length)
        if options.drafts or options.beam_size > _WIDEST or not isfinite(norm):
            return False
        return session.has_room(_Sizes.of(search).blocks * session.query_count)

    def __init__(
        self, session: CudaSession, search: BeamSearch, rounds_ahead: int = ROUNDS_AHEAD
    ) -> None:
        self._sizes = sizes = _Sizes.of(search)
        row = np.dtype(
            [
                ("head", _HEAD),
                ("places", _PLACE, (sizes.lanes,)),
                ("token_ids", "<i4", (sizes.lanes, sizes.capacity)),
            ]
        )
        super().__init__(session, row, rounds_ahead)
        rows = session.query_count
        self._path_slots = self._zeros(rows, sizes.beam_size, sizes.capacity)
        self._kv_cache = session.cache(rows * sizes.blocks)
        self._best_ids = self._zeros(0, sizes.candidates)
        self._best_log_probs = self._zeros(0, sizes.candidates, dtype=torch.float32)
        self._length_norms = self._zeros(1 + sizes.capacity, dtype=torch.float64)
        self.begin(search)

    def fits(self, search: BeamSearch) -> bool:
        """Whether the buffers, and the graphs on them, are those of another search."""
        return self._sizes == _Sizes.of(search)

    def begin(self, search: BeamSearch) -> None:
        """Forget all queries, for a decode loop of `search`."""
        self._forget(search.guess_model)
        self._options = options = search.options
        norms = [options.length_norm(length) for length in range(1 + options.max_length)]
        sent = self._session.send(torch.tensor(norms, dtype=torch.float64))
        self._length_norms[: len(norms)] = sent

    def _fresh(self) -> npt.NDArray[np.void]:
        fresh = np.zeros((), dtype=[("head", _HEAD), ("place", _PLACE)])
        head = fresh["head"]
        head["state"], head["max_length"] = LIVE, self._options.max_length
        head["count"] = head["live_count"] = 1
        return fresh

    def _begin(self, row: int, source_ids: Sequence[int]) -> int:
        del row, source_ids
        return self._sizes.beam_size

    def _grow(self, size: int) -> None:
        self._best_ids = self._best_ids.new_zeros(size, self._sizes.candidates)
        self._best_log_probs = self._best_log_probs.new_zeros(size, self._sizes.candidates)

    def _launch(self, size: int) -> None:
        library = self._session.library
        answers, path_slots = self._answers, self._path_slots
        nodes, log_probs = self._nodes[:size], self._log_probs[:size]
        best = self._best_ids, self._best_log_probs
        library.stage_beams(answers, path_slots, nodes, self._guess.bos)
        self._session.launch(nodes, path_slots.view(-1), self._kv_cache, log_probs)
        library.rank_tokens(nodes, log_probs, *best)
        library.select_beams(answers, path_slots, *best, self._length_norms, self._guess.eos)

    def _hypotheses(self, answer: np.void) -> list[Hypothesis]:
        head, places = answer["head"], answer["places"]
        if self._options.finished_apart:
            best = places[self._sizes.beam_size :][: head["finished_count"]]
        else:
            best = places[: head["count"]]
        return [
            _hypothesis(place, answer["token_ids"][place["lane"]])
            for place in best[: self._options.n_best]
        ]


def _hypothesis(place: np.void, token_ids: npt.NDArray[np.int32]) -> Hypothesis:
    finished = bool(place["finished"])
    return Hypothesis(
        token_ids=token_ids[: place["length"] - finished].tolist(),
        log_prob=float(place["log_prob"]),
        finished=finished,
    )
