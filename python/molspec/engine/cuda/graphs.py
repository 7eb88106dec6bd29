"""What a step on a CUDA device is replayed from: captured graphs, and buffers with an image."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock

import torch

#: One capture at a time in the process: torch has one list of those under way.
_CAPTURE = Lock()


@contextmanager
def _capturing() -> Iterator[None]:
    """The process's only capture, in which no garbage is collected: it may own graphs."""
    with _CAPTURE:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()


class Graphs:
    """Captured graphs by key: work is captured at its first use, then replayed."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._stream: torch.cuda.Stream | None = None

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Do the work, which must be the same kernels on the same buffers at every call."""
        with torch.cuda.device(self._device):
            if (graph := self._graphs.get(key)) is not None:
                graph.replay()
                return
            with _capturing():
                work()  # loads the kernels: a capture must not
                torch.cuda.current_stream().synchronize()
                self._graphs[key] = self._capture(work)

    def _capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        # Not torch.cuda.graph, which waits for the device, which no thread may while another one
        # captures, and empties torch's caches.
        graph = torch.cuda.CUDAGraph()
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)
        with torch.cuda.stream(self._stream):
            # What another thread allocates meanwhile would break a capture of another mode.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                work()
            finally:
                graph.capture_end()
        return graph

    def mark(self) -> Callable[[], None]:
        """A function that waits until all that has been queued so far is done."""
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._device))
        wait: Callable[[], None] = event.synchronize
        return wait

    def forget(self, owner: object) -> None:
        """Forget the graphs whose keys begin with an owner's id."""
        for key in [k for k in self._graphs if isinstance(k, tuple) and k[0] == id(owner)]:
            del self._graphs[key]

    def clear(self) -> None:
        """Forget all graphs: a buffer has moved."""
        self._graphs.clear()


class Staged:
    """A buffer on the device and its image in page-locked memory of the host."""

    def __init__(self, columns: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        self._columns = columns
        self.host = torch.empty((0, *columns), dtype=dtype, device="cpu")
        self.device = self.host.to(device)

    def grow(self, count: int) -> bool:
        """Make room for `count` rows; what was in it is lost. Whether the buffer has moved."""
        if count <= len(self.host):
            return False
        device, dtype = self.device.device, self.device.dtype
        shape = (count, *self._columns)
        self.host = torch.empty(shape, dtype=dtype, device="cpu", pin_memory=device.type == "cuda")
        self.device = torch.empty(shape, dtype=dtype, device=device)
        return True

    def upload(self, count: int) -> None:
        """Copy the first rows to the device."""
        self.device[:count].copy_(self.host[:count], non_blocking=True)

    def download(self, count: int) -> None:
        """Copy the first rows to the host, where they are once the stream has been waited for."""
        self.host[:count].copy_(self.device[:count], non_blocking=True)
