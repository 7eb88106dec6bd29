"""The engine on a CUDA device: the same calls, and searches whose rounds run there."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec._native import GuessModel, SearchSpec
from molspec.engine.cuda.beams import BeamRounds, SpeculativeBeamRounds
from molspec.engine.cuda.greedy import GreedyRounds
from molspec.engine.cuda.rounds import GraphExecutor
from molspec.engine.cuda.session import CudaSession
from molspec.engine.packing import pack
from molspec.engine.session import Session
from molspec.model.copying import copied_between_processes
from molspec.model.spec import ModelSpec

#: The rounds of one session, one for each spec; the last used one is last.
Rounds = list[GraphExecutor[Any]]
#: The kinds of searches whose rounds can run on a device.
_KINDS: tuple[type[GraphExecutor[Any]], ...] = (GreedyRounds, BeamRounds, SpeculativeBeamRounds)
#: kMostHeadVectors * kWarp of csrc/cuda/attention.cuh.
_WIDEST_HEAD = 128
#: Maximum rounds without live queries whose buffers and graphs are stored for reuse.
_MOST_IDLE = 4


@copied_between_processes
class CudaEngine:
    """Encodes queries and evaluates nodes of the token tree on one device.

    The weights may be shared: `session` makes the caches for one batch. With `rounds_on_device`
    false, the host drafts and selects between steps for every search, for comparison.

    Raises ValueError if the model's heads are too wide for the kernels.
    """

    def __init__(
        self,
        spec: ModelSpec,
        weights: Mapping[str, Tensor],
        dtype: torch.dtype,
        device: torch.device,
        rounds_on_device: bool = True,
    ) -> None:
        if spec.head_dim > _WIDEST_HEAD:
            raise ValueError(
                f"head_dim is {spec.head_dim}: expected at most {_WIDEST_HEAD} on CUDA"
            )
        self.spec = spec
        self.dtype = dtype
        packed = pack(spec, weights, dtype)
        self.packed = replace(packed, weights=packed.weights.to(device))
        self.rounds_on_device = rounds_on_device
        self._idle: list[tuple[CudaSession, Rounds]] = []  # the last session that was returned

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_idle": []}  # captured graphs cannot be copied

    def session(self, query_count: int) -> Lease:
        """Caches for at most `query_count` queries, with the graphs of the last such session."""
        session, rounds = self._take(query_count)
        return Lease(session, rounds, self.rounds_on_device, self._give_back)

    def free_caches(self) -> None:
        """Free the idle session; those in use stay."""
        self._idle.clear()

    def _take(self, query_count: int) -> tuple[CudaSession, Rounds]:
        try:
            session, rounds = self._idle.pop()
        except IndexError:
            return self._make(query_count), []
        if session.query_count != query_count:
            del session, rounds  # before the new one needs their memory
            return self._make(query_count), []
        for each in rounds:
            each.end()
        session.reset()
        return session, rounds

    def _make(self, query_count: int) -> CudaSession:
        # A later step may run outside the caller's inference mode.
        with torch.inference_mode(False):
            return CudaSession(self.packed, query_count)

    def _give_back(self, session: CudaSession, rounds: Rounds) -> None:
        self._idle[:] = [(session, rounds)]


class Lease(Session):
    """A session in use by one batch, and the rounds of searches on its device.

    When the lease is deleted, they become idle: the next call reuses their buffers and captured
    graphs.
    """

    def __init__(
        self,
        session: CudaSession,
        rounds: Rounds,
        rounds_on_device: bool,
        give_back: Callable[[CudaSession, Rounds], None],
    ) -> None:
        self._session = session
        self._rounds = rounds
        self._rounds_on_device = rounds_on_device
        weakref.finalize(self, give_back, session, rounds).atexit = False

    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode sources into free rows."""
        self._session.encode(rows, sources)

    def step(
        self, nodes: npt.NDArray[np.int32], path_slots: npt.NDArray[np.int32], block_count: int
    ) -> npt.NDArray[np.float32]:
        """Log-probabilities after the nodes."""
        return self._session.step(nodes, path_slots, block_count)

    def release(self, row: int) -> None:
        """Free a row."""
        self._session.release(row)

    def keep_hidden_states(self) -> None:
        """Store the last hidden state of every node from the next step on."""
        self._session.keep_hidden_states()

    def hidden_states(self, slots: Sequence[int]) -> Tensor:
        """Last hidden states of evaluated nodes."""
        return self._session.hidden_states(slots)

    def executor(self, search: SearchSpec, guess: GuessModel) -> GraphExecutor[Any] | None:
        """Rounds of a search that can run on the device; None for all others.

        They are those of the same spec, or of another one without live queries whose buffers fit.
        """
        if not self._rounds_on_device:
            return None
        rounds = next((each for each in self._rounds if each.spec is search), None)
        if rounds is None:
            with self._session.on_stream():
                rounds = self._find(search, guess)
            if rounds is None:
                return None
        else:
            self._rounds.remove(rounds)
        self._rounds.append(rounds)
        return rounds

    def _find(self, spec: SearchSpec, guess: GuessModel) -> GraphExecutor[Any] | None:
        """Idle rounds whose buffers fit; or new ones, if there is room when idle ones go."""
        session = self._session
        kind = next((kind for kind in _KINDS if kind.takes(spec, guess, session)), None)
        if kind is None:
            return None
        sizes = kind.sizes_of(spec, guess, session)
        idle = [each for each in self._rounds if not each.live_count]
        fitting = (each for each in idle if isinstance(each, kind) and each.sizes == sizes)
        if (rounds := next(fitting, None)) is not None:
            self._rounds.remove(rounds)
            rounds.end()
            rounds.begin(spec, guess)
            return rounds
        needed = sizes.needs(session)
        while len(idle) >= _MOST_IDLE or (idle and not session.has_room(*needed)):
            self._drop(idle.pop(0))  # no variable here keeps its memory
        return kind(session, spec, guess) if session.has_room(*needed) else None

    def _drop(self, rounds: GraphExecutor[Any]) -> None:
        rounds.end()
        self._rounds.remove(rounds)
        self._session.graphs.forget(rounds)
