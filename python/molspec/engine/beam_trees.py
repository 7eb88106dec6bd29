"""What beam searches on a device have in common: a tree of nodes a query (csrc/ops/beam_rows.h)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec._native import GuessModel, Hypothesis, ListOptions
from molspec.engine.packing import BLOCK_POSITIONS
from molspec.engine.rounds import LIVE, DeviceRounds, SearchT

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
        ("draft_count", "<i4"),
    ]
)


@dataclass(frozen=True)
class TreeSizes:
    """What the buffers of a search depend on, and the numbers that its graphs hold."""

    beam_size: int
    finished_apart: bool
    #: Positions of a path, BOS counted: an even number.
    capacity: int
    #: Steps of looking ahead, or drafts of a hypothesis: what BeamRows::reserve takes.
    drafted: int
    #: Nodes of a query in a round.
    planned: int
    numbers: tuple[float, ...]
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
        reserve = self.beam_size * (self.drafted + 2)
        return -(-(self.places * self.capacity + reserve) // BLOCK_POSITIONS)

    @property
    def nodes(self) -> int:
        """Of a query's tree."""
        return self.blocks * BLOCK_POSITIONS

    def fit(
        self, session: CudaSession, length_norm: Callable[[int], float], state_size: int = 0
    ) -> bool:
        """Whether the rounds of such a search can stay on a session's device.

        `state_size` is that of a node's guess state, in bytes.

        Left to the host: beams that are wider than a block of threads holds, what takes much of the
        device's memory, and a length penalty so high that no double holds the norm.
        """
        slots = self.nodes * session.query_count
        slot_size = 4 * (self.capacity + _NODE_FIELDS + 2 * self.candidates) + state_size
        return (
            self.beam_size <= _WIDEST
            and self.nodes <= _MOST_NODES
            and slots * self.capacity < 2**31
            and isfinite(length_norm(self.capacity))
            and session.has_room(slots // BLOCK_POSITIONS, slots * slot_size)
        )


def capacity(options: ListOptions) -> int:
    """Positions of a path."""
    return options.max_length + 2 - options.max_length % 2


def special_ids(guess: GuessModel) -> tuple[int, int]:
    """What the operators are told of a vocabulary."""
    return guess.bos, guess.eos


class BeamTreeRounds(DeviceRounds[SearchT]):
    """Buffers of a beam search on a session's device; a subclass has its rounds."""

    def __init__(self, session: CudaSession, sizes: TreeSizes, rounds_ahead: int) -> None:
        self._sizes = sizes
        row = np.dtype(
            [
                ("head", _HEAD),
                ("places", _PLACE, (sizes.places,)),
                ("token_ids", "<i4", (sizes.beam_size, sizes.capacity)),
            ]
        )
        super().__init__(session, row, rounds_ahead)
        rows = session.query_count
        self._path_slots = self._zeros(rows, sizes.nodes, sizes.capacity)
        #: BeamRows.
        self._beams = (
            self._answers,
            self._zeros(rows, sizes.nodes, _NODE_FIELDS),
            self._zeros(rows, sizes.blocks),
            self._path_slots,
            self._zeros(rows, sizes.planned),
        )
        self._length_norms = self._zeros(sizes.capacity, dtype=torch.float64)
        #: BestTokens, and what scores are divided by.
        self._best = (
            self._zeros(rows * sizes.nodes, sizes.candidates),
            self._zeros(rows * sizes.nodes, sizes.candidates, dtype=torch.float32),
            self._length_norms,
        )
        self._kv_cache = session.cache(rows * sizes.blocks)

    def _begin_lists(self, options: ListOptions) -> None:
        """Give lists as these options ask for."""
        self._options = options
        norms = [options.length_norm(length) for length in range(self._sizes.capacity)]
        self._length_norms.copy_(
            self._session.send(torch.tensor(norms, dtype=torch.float64, device="cpu"))
        )

    def _fresh(self) -> npt.NDArray[np.void]:
        fresh = np.zeros((), dtype=[("head", _HEAD), ("place", _PLACE)])
        head = fresh["head"]
        head["state"], head["max_length"] = LIVE, self._options.max_length
        head["count"] = head["planned_count"] = 1
        head["looked_from"] = -1
        return fresh

    def _grow(self, size: int) -> None:
        """Nothing else depends on the nodes of a round."""

    def _launch(self, size: int) -> None:
        library, sizes = self._session.library, self._sizes
        nodes, log_probs = self._nodes[:size], self._log_probs[:size]
        self._draft()
        library.stage_beams(*self._beams, nodes, sizes.beam_size, self._guess.bos)
        path_slots: Tensor = self._path_slots.view(-1)
        self._session.launch(nodes, path_slots, self._kv_cache, log_probs)
        library.rank_tokens(nodes, path_slots, log_probs, *self._best[:2])
        self._select()

    @abstractmethod
    def _draft(self) -> None:
        """Queue what plans the drafts of a round."""

    @abstractmethod
    def _select(self) -> None:
        """Queue what makes the next beam."""

    def _hypotheses(self, answer: np.void) -> list[Hypothesis]:
        head, places = answer["head"], answer["places"]
        if self._sizes.finished_apart:
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
