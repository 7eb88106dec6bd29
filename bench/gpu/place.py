"""Where a part of bench/gpu runs: on a device, or with the CUDA operators as host code."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from molspec.checkpoints import Checkpoint
from molspec.engine import ops
from molspec.engine.cuda.caches import Caches
from molspec.engine.cuda.engine import CudaEngine
from molspec.engine.cuda.graphs import Graphs
from molspec.prediction.model import Model

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
#: A line of the results.
Row = dict[str, Any]


class Eager(Graphs):
    """Does the work at once: nothing is captured."""

    captures = False

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Do the work."""
        del key
        work()

    def mark(self) -> Callable[[], None]:
        """A function that waits for all work that is queued now."""
        return super().mark() if self._device.type == "cuda" else lambda: None


class EagerEngine(CudaEngine):
    """The CUDA engine without graphs, with the operators of any library."""

    library: Any

    def _make(self, query_count: int) -> Caches:
        with torch.inference_mode(False):
            packed = self._moved()
            return Caches(packed, query_count, self.library, Eager(packed.weights.device))


@dataclass(frozen=True)
class Place:
    """The device of a part, and whether to run less of it."""

    device: str  # "cuda"; "cpu", for the CPU's operators; or "emulation"
    few: bool
    ops: Any = ops.library
    emulator: Any = None

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
        machine = emulator.build(cache)
        return Place(device, few, machine.ops, machine)

    @property
    def tensors(self) -> str:
        """The torch device of tensors."""
        return "cuda" if self.device == "cuda" else "cpu"

    @property
    def has_rounds(self) -> bool:
        """Whether rounds of searches can run there."""
        return self.device != "cpu"

    def model(self, checkpoint: Checkpoint, dtype: str, eager: bool = False) -> Model:
        """A model that runs there; `eager`: every kernel is launched by itself, for checks."""
        if self.device == "cpu" or (self.device == "cuda" and not eager):
            return Model(checkpoint, dtype, self.tensors)
        device = torch.device(self.tensors)
        # A CPU's own engine does not take every dtype.
        if self.device == "cuda":
            model = Model(checkpoint, dtype, self.tensors)
        else:
            model = Model(checkpoint)
        weights = dict(checkpoint.weights)
        engine = EagerEngine(checkpoint.spec, weights, DTYPES[dtype], device)
        engine.library = self.ops
        model.engine = engine
        return model

    def wait(self) -> None:
        """Wait until all queued work is done."""
        if self.device == "cuda":
            torch.cuda.synchronize()


#: A part: yields its rows; a row with "ok": False fails it.
Part = Callable[[Place], Iterator[Row]]
