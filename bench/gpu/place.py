"""Where a part of bench/gpu runs: on a device, or with the CUDA operators as host code."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from molspec import ops
from molspec.checkpoints import Checkpoint
from molspec.engine.cuda.engine import CudaEngine
from molspec.engine.cuda.graphs import Graphs
from molspec.engine.cuda.session import CudaSession
from molspec.predictor import Model

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
#: A line of the results.
Row = dict[str, Any]


class _Eager(Graphs):
    """Does the work at once, because there is nothing to capture."""

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        del key
        work()

    def mark(self) -> Callable[[], None]:
        return lambda: None


class _EmulatedEngine(CudaEngine):
    """The CUDA engine with operators compiled as host code."""

    library: Any

    def _make(self, query_count: int) -> CudaSession:
        graphs = _Eager(torch.device("cpu"))
        return CudaSession(self.packed, query_count, self.library, graphs)


@dataclass(frozen=True)
class Place:
    """The device of a part, and whether to run less of it."""

    device: str  # "cuda"; "cpu", for the CPU's operators; or "emulation"
    few: bool
    ops: Any = ops.library

    @staticmethod
    def on(device: str, few: bool) -> Place:
        """Make a place; compiles the emulation if that is the device."""
        if device == "cuda":
            ops.load_cuda()
        if device != "emulation":
            return Place(device, few)
        from tests.cuda import emulator

        cache = Path("build/emulation")
        cache.mkdir(parents=True, exist_ok=True)
        return Place(device, few, emulator.build(cache).ops)

    @property
    def tensors(self) -> str:
        """The torch device of tensors."""
        return "cuda" if self.device == "cuda" else "cpu"

    @property
    def has_rounds(self) -> bool:
        """Whether rounds of searches can run there."""
        return self.device != "cpu"

    def model(self, checkpoint: Checkpoint, dtype: str) -> Model:
        """A model that runs there."""
        if self.device != "emulation":
            return Model(checkpoint, dtype, self.tensors)
        model = Model(checkpoint)  # a CPU's own engine does not take every dtype
        weights = dict(checkpoint.weights)
        engine = _EmulatedEngine(checkpoint.spec, weights, DTYPES[dtype], torch.device("cpu"))
        engine.library = self.ops
        model.engine = engine
        return model

    def wait(self) -> None:
        """Wait until all queued work is done."""
        if self.device == "cuda":
            torch.cuda.synchronize()


#: A part: yields its rows; a row with "ok": False fails it.
Part = Callable[[Place], Iterator[Row]]
