"""The engine on a CUDA device: the same calls, and searches whose rounds run there."""

import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from molspec.engine.cuda.caches import Caches
from molspec.engine.cuda.executors import Executors
from molspec.engine.cuda.session import CudaSession
from molspec.engine.packing import PackedModel, pack
from molspec.model.copying import copied_between_processes
from molspec.model.spec import ModelSpec

#: kMostHeadVectors * kWarp of csrc/cuda/engine/attention.cuh.
_WIDEST = 128


@copied_between_processes
class CudaEngine:
    """Encodes queries and evaluates nodes of the token tree on one device.

    The weights may be shared: `session` makes the caches for one batch. The first session moves
    them to the device; until then, processes may be forked that share them.

    Raises ValueError if the model's heads are too wide for the kernels.
    """

    def __init__(
        self,
        spec: ModelSpec,
        weights: Mapping[str, Tensor],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        if spec.head_dim > _WIDEST:
            raise ValueError(f"head_dim is {spec.head_dim}: expected at most {_WIDEST} on CUDA")
        self.spec = spec
        self.dtype = dtype
        self.packed = pack(spec, weights, dtype)
        self._device = device
        self._idle: list[Executors] = []  # of the last session that ended

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_idle": []}  # captured graphs cannot be copied

    def session(self, query_count: int) -> CudaSession:
        """Caches for at most `query_count` queries, with the graphs of the last such session.

        When the session is deleted, they become idle: the next one works in them.
        """
        executors = self._take(query_count)
        session = CudaSession(executors)
        weakref.finalize(session, self._give_back, executors).atexit = False
        return session

    def free_caches(self) -> None:
        """Free the idle caches; those in use stay."""
        self._idle.clear()

    def _take(self, query_count: int) -> Executors:
        try:
            executors = self._idle.pop()
        except IndexError:
            return Executors(self._make(query_count))
        if executors.caches.query_count != query_count:
            del executors  # before the new ones need their memory
            return Executors(self._make(query_count))
        executors.end()
        return executors

    def _make(self, query_count: int) -> Caches:
        # A later step may run outside the caller's inference mode.
        with torch.inference_mode(False):
            return Caches(self._moved(), query_count)

    def _moved(self) -> PackedModel:
        """The model, which the first call moves to the device."""
        self.packed = replace(self.packed, weights=self.packed.weights.to(self._device))
        return self.packed

    def _give_back(self, executors: Executors) -> None:
        self._idle[:] = [executors]
