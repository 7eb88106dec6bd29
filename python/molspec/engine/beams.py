"""Beam search whose rounds stay on a CUDA device (csrc/ops/beam_rows.h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from molspec._native import BeamOptions, BeamSearch, Hypothesis
from molspec.engine import drafts
from molspec.engine.packing import BLOCK_POSITIONS
from molspec.engine.rounds import LIVE, ROUNDS_AHEAD, DeviceRounds

if TYPE_CHECKING:
    from molspec.engine.cuda import CudaSession

#: kWidestBeam, and the nodes of kMostBeamBlocks.
_WIDEST = 64
_MOST_NODES = 1024 * BLOCK_POSITIONS
#: Fields of BeamNode.
_NODE_FIELDS = 6

#: BeamAnswer: the head of a row of answers.
_HEAD = np.dtype(
    [
        ("state", "<i4"),
        ("count", "<i4"),
        ("finished_count", "<i4"),
        ("length", "<i4"),
        ("steps", "<i4"),
        ("nodes", "<i4"),
        ("drafted_tokens", "<i4"),
        ("accepted_tokens", "<i4"),
        ("emitted_tokens", "<i4"),
        ("planned_count", "<i4"),
        ("first_node", "<i4"),
        ("max_length", "<i4"),
        ("used_count", "<i4"),
        ("looked_from", "<i4"),
        ("unused", "<i4", (2,)),
    ]
)
#: BeamPlace.
_PLACE = np.dtype(
    [
        ("log_prob", "<f8"),
        ("node", "<i4"),
        ("length", "<i4"),
        ("finished", "<i4"),
        ("unused", "<i4"),
    ]
)


@dataclass(frozen=True)
class _Sizes:
    """What the buffers of a search depend on, and the numbers that its graphs hold."""

    beam_size: int
    finished_apart: bool
    #: Positions of a path, BOS counted: an even number.
    capacity: int
    #: Looking ahead; 0 steps where there are no drafts.
    lookahead_steps: int
    node_budget: int
    min_confidence: float
    special_ids: tuple[int, int]

    @property
    def places(self) -> int:
        """Of hypotheses in a row of answers."""
        return self.beam_size * (1 + self.finished_apart)

    @property
    def candidates(self) -> int:
        """Tokens of a hypothesis that may be chosen."""
        return self.beam_size + self.finished_apart

    @property
    def blocks(self) -> int:
        """Of a query's tree: the paths of all hypotheses, and BeamRows::reserve."""
        reserve = self.beam_size * (self.lookahead_steps + 2)
        return -(-(self.places * self.capacity + reserve) // BLOCK_POSITIONS)

    @property
    def nodes(self) -> int:
        """Of a query's tree."""
        return self.blocks * BLOCK_POSITIONS

    @classmethod
    def of(cls, search: BeamSearch) -> _Sizes:
        options, guess = search.options, search.guess_model
        return cls(
            options.beam_size,
            options.finished_apart,
            options.max_length + 2 - options.max_length % 2,
            *_drafting(options),
            (guess.bos, guess.eos),
        )


def _drafting(options: BeamOptions) -> tuple[int, int, float]:
    if not options.drafts:
        return 0, 0, 0.0
    return options.lookahead_steps, options.node_budget, options.min_confidence


class BeamRounds(DeviceRounds[BeamSearch]):
    """Beam search on a session's device: buffers and graphs, for one decode loop after another.

    Raises ValueError where the search's vocabulary is not the model's.
    """

    @staticmethod
    def takes(search: object, session: CudaSession) -> bool:
        """Whether it is beam search, no wider than a block of threads holds.

        Left to the host: drafts of a guess without an n-gram model, what takes much of the device's
        memory, and a length penalty so high that no double holds the norm.
        """
        if not isinstance(search, BeamSearch):
            return False
        options, sizes = search.options, _Sizes.of(search)
        if options.beam_size > _WIDEST or sizes.nodes > _MOST_NODES:
            return False
        if options.drafts and not drafts.guesses(search.guess_model):
            return False
        slots = sizes.nodes * session.query_count
        within = slots * sizes.capacity < 2**31 and isfinite(options.length_norm(sizes.capacity))
        return within and session.has_room(slots // BLOCK_POSITIONS)

    def __init__(
        self, session: CudaSession, search: BeamSearch, rounds_ahead: int = ROUNDS_AHEAD
    ) -> None:
        self._sizes = sizes = _Sizes.of(search)
        row = np.dtype(
            [
                ("head", _HEAD),
                ("places", _PLACE, (sizes.places,)),
                ("token_ids", "<i4", (sizes.beam_size, sizes.capacity)),
            ]
        )
        super().__init__(session, row, rounds_ahead)
        rows = session.query_count
        #: BeamTrees.
        self._trees = (
            self._zeros(rows, sizes.nodes, _NODE_FIELDS),
            self._zeros(rows, sizes.blocks),
            self._zeros(rows, sizes.nodes, sizes.capacity),
            self._zeros(rows, sizes.beam_size + sizes.node_budget),
        )
        self._best = (
            self._zeros(rows * sizes.nodes, sizes.candidates),
            self._zeros(rows * sizes.nodes, sizes.candidates, dtype=torch.float32),
        )
        self._kv_cache = session.cache(rows * sizes.blocks)
        self._length_norms = self._zeros(sizes.capacity, dtype=torch.float64)
        self._guessed: drafts.DeviceGuess | None = None
        if sizes.lookahead_steps:
            self._guessed = drafts.DeviceGuess(session, search.guess_model, sizes.nodes)
        self.begin(search)

    def fits(self, search: BeamSearch) -> bool:
        """Whether the buffers, and the graphs on them, are those of another search."""
        same = self._guessed is None or self._guessed.model is search.guess_model
        return same and self._sizes == _Sizes.of(search)

    def begin(self, search: BeamSearch) -> None:
        """Forget all queries, for a decode loop of `search`."""
        self._forget(search.guess_model)
        self._options = options = search.options
        norms = [options.length_norm(length) for length in range(self._sizes.capacity)]
        self._length_norms.copy_(self._session.send(torch.tensor(norms, dtype=torch.float64)))

    def _fresh(self) -> npt.NDArray[np.void]:
        fresh = np.zeros((), dtype=[("head", _HEAD), ("place", _PLACE)])
        head = fresh["head"]
        head["state"], head["max_length"] = LIVE, self._options.max_length
        head["count"] = head["planned_count"] = 1
        head["looked_from"] = -1
        return fresh

    def _begin(self, row: int, source_ids: Sequence[int]) -> int:
        if self._guessed is not None:
            self._guessed.start(row, source_ids)
        return self._sizes.beam_size + self._sizes.node_budget

    def _grow(self, size: int) -> None:
        """Nothing else depends on the nodes of a round."""

    def _launch(self, size: int) -> None:
        library, sizes = self._session.library, self._sizes
        beams = self._answers, *self._trees
        path_slots = self._trees[2].view(-1)
        nodes, log_probs = self._nodes[:size], self._log_probs[:size]
        if self._guessed is not None:
            library.look_ahead(
                *(*beams, *self._best, self._length_norms, *self._guessed.tensors),
                *(sizes.beam_size, sizes.lookahead_steps, sizes.node_budget),
                *(sizes.min_confidence, self._guess.bos, self._guess.eos),
            )
        library.stage_beams(*beams, nodes, sizes.beam_size, self._guess.bos)
        self._session.launch(nodes, path_slots, self._kv_cache, log_probs)
        library.rank_tokens(nodes, path_slots, log_probs, *self._best)
        library.replay_beams(
            *beams, *self._best, self._length_norms, sizes.beam_size, self._guess.eos
        )

    def _hypotheses(self, answer: np.void) -> list[Hypothesis]:
        head, places = answer["head"], answer["places"]
        if self._options.finished_apart:
            best = places[self._sizes.beam_size :][: head["finished_count"]]
        else:
            best = places[: head["count"]]
        return [
            _hypothesis(place, token_ids)
            for place, token_ids in zip(
                best[: self._options.n_best], answer["token_ids"], strict=False
            )
        ]


def _hypothesis(place: np.void, token_ids: npt.NDArray[np.int32]) -> Hypothesis:
    finished = bool(place["finished"])
    return Hypothesis(
        token_ids=token_ids[: place["length"] - finished].tolist(),
        log_prob=float(place["log_prob"]),
        finished=finished,
    )
