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
from molspec.engine.cuda.beams import BeamExecutor, SpeculativeBeamExecutor
from molspec.engine.cuda.executor import GraphExecutor
from molspec.engine.cuda.greedy import GreedyExecutor
from molspec.engine.cuda.session import CudaSession
from molspec.engine.packing import pack
from molspec.engine.session import Session
from molspec.model.copying import copied_between_processes
from molspec.model.spec import ModelSpec

#: The executors of one session, one for each spec; the last used one is last.
Executors = list[GraphExecutor[Any]]
#: The kinds of searches whose rounds can run on a device.
_KINDS: tuple[type[GraphExecutor[Any]], ...] = (
    GreedyExecutor,
    BeamExecutor,
    SpeculativeBeamExecutor,
)
#: kMostHeadVectors * kWarp of csrc/cuda/engine/attention.cuh.
_WIDEST_HEAD = 128
#: Maximum executors without live queries whose buffers and graphs are stored for reuse.
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
        self._idle: list[tuple[CudaSession, Executors]] = []  # the last session that was returned

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_idle": []}  # captured graphs cannot be copied

    def session(self, query_count: int) -> Lease:
        """Caches for at most `query_count` queries, with the graphs of the last such session."""
        session, executors = self._take(query_count)
        return Lease(session, executors, self.rounds_on_device, self._give_back)

    def free_caches(self) -> None:
        """Free the idle session; those in use stay."""
        self._idle.clear()

    def _take(self, query_count: int) -> tuple[CudaSession, Executors]:
        try:
            session, executors = self._idle.pop()
        except IndexError:
            return self._make(query_count), []
        if session.query_count != query_count:
            del session, executors  # before the new one needs their memory
            return self._make(query_count), []
        for each in executors:
            each.end()
        session.reset()
        return session, executors

    def _make(self, query_count: int) -> CudaSession:
        # A later step may run outside the caller's inference mode.
        with torch.inference_mode(False):
            return CudaSession(self.packed, query_count)

    def _give_back(self, session: CudaSession, executors: Executors) -> None:
        self._idle[:] = [(session, executors)]


class Lease(Session):
    """A session in use by one batch, and the executors of searches on its device.

    When the lease is deleted, they become idle: the next call reuses their buffers and captured
    graphs.
    """

    def __init__(
        self,
        session: CudaSession,
        executors: Executors,
        rounds_on_device: bool,
        give_back: Callable[[CudaSession, Executors], None],
    ) -> None:
        self._session = session
        self._executors = executors
        self._rounds_on_device = rounds_on_device
        weakref.finalize(self, give_back, session, executors).atexit = False

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
        """The executor of a search whose rounds can run on the device; None for all others.

        It is that of an equal spec, or of another one without live queries whose buffers fit.
        """
        if not self._rounds_on_device:
            return None
        executor = next((each for each in self._executors if each.runs(search, guess)), None)
        if executor is None:
            with self._session.on_stream():
                executor = self._find(search, guess)
            if executor is None:
                return None
        else:
            self._executors.remove(executor)
        self._executors.append(executor)
        return executor

    def _find(self, spec: SearchSpec, guess: GuessModel) -> GraphExecutor[Any] | None:
        """An idle executor whose buffers fit; or a new one, if there is room when idle ones go."""
        session = self._session
        for kind in _KINDS:
            if (sizes := kind.sizes_of(spec, guess, session)) is not None:
                break
        else:
            return None
        idle = [each for each in self._executors if not each.live_count]
        fitting = (each for each in idle if isinstance(each, kind) and each.sizes == sizes)
        if (executor := next(fitting, None)) is not None:
            self._executors.remove(executor)
            executor.end()
            executor.begin(spec, guess)
            return executor
        needed = sizes.needs(session)
        while len(idle) >= _MOST_IDLE or (idle and not session.has_room(*needed)):
            self._drop(idle.pop(0))  # no variable here keeps its memory
        return kind(session, spec, guess, sizes) if session.has_room(*needed) else None

    def _drop(self, executor: GraphExecutor[Any]) -> None:
        executor.end()
        self._executors.remove(executor)
        self._session.graphs.forget(executor)
