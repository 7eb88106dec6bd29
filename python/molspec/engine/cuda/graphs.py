"""Captured CUDA graphs, and buffers with an image on the host."""

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock

import torch

#: One capture at a time in the process: torch has one list of running captures.
_CAPTURE = Lock()


@contextmanager
def _capturing() -> Iterator[None]:
    """The process's only capture. Garbage, which may own graphs, is not collected meanwhile."""
    with _CAPTURE:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()


def synchronize(device: str) -> None:
    """Wait for a device; while a graph is captured, that would be an error."""
    with _CAPTURE:
        torch.cuda.synchronize(device)


class Graphs:
    """Captured graphs by key: work is captured at its first use, then replayed.

    stream: torch's current one at every call.
    """

    #: Whether there are graphs, which `handle` needs.
    captures = True

    def __init__(self, device: torch.device, stream: torch.cuda.Stream | None = None) -> None:
        self._device, self._current = device, stream
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._stream: torch.cuda.Stream | None = None
        #: Counts the calls of `clear`.
        self.generation = 0

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Do the work, which must be the same kernels on the same buffers at every call."""
        if (graph := self._graphs.get(key)) is not None:
            graph.replay()
            return
        with torch.cuda.device(self._device), _capturing():
            work()  # loads the kernels, which a capture must not do
            torch.cuda.current_stream().synchronize()
            self._graphs[key] = self._capture(work)

    def handle(self, key: Hashable, work: Callable[[], None]) -> int:
        """A graph's cudaGraphExec_t, valid until `clear`; the work is captured if it was not."""
        if key not in self._graphs:
            self.run(key, work)
        return self._graphs[key].raw_cuda_graph_exec()

    def _capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        # Not torch.cuda.graph: it waits for the device, which is an error while another thread
        # captures, and empties torch's caches.
        graph = torch.cuda.CUDAGraph()
        if self._stream is None:
            # Of the pool of high priority: torch deals out few streams, so another session may work
            # on one of the others, and its kernels would become part of this graph.
            self._stream = torch.cuda.Stream(self._device, priority=-1)
        with torch.cuda.stream(self._stream):
            # In other modes an allocation by another thread would break the capture.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                work()
            finally:
                graph.capture_end()
        return graph

    def mark(self) -> Callable[[], None]:
        """A function that waits for all work that is queued now."""
        event = torch.cuda.Event()
        event.record(self._current)
        wait: Callable[[], None] = event.synchronize
        return wait

    def forget(self, owner: object) -> None:
        """Forget the graphs whose keys begin with an owner's id."""
        for key in [k for k in self._graphs if isinstance(k, tuple) and k[0] == id(owner)]:
            del self._graphs[key]

    def clear(self) -> None:
        """Forget all graphs: a buffer has moved."""
        self._graphs.clear()
        self.generation += 1


class Staged:
    """A buffer on the device and its image in page-locked memory of the host."""

    def __init__(self, columns: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        self._columns = columns
        self.host = torch.empty((0, *columns), dtype=dtype, device="cpu")
        self.device = self.host.to(device)

    def grow(self, count: int) -> bool:
        """Grow to `count` rows, losing the content. Returns whether the buffer has moved."""
        if count <= len(self.host):
            return False
        device, dtype = self.device.device, self.device.dtype
        shape = (count, *self._columns)
        host = torch.empty(shape, dtype=dtype, device="cpu", pin_memory=device.type == "cuda")
        # Both, or, if there is no memory, none.
        self.device, self.host = torch.empty(shape, dtype=dtype, device=device), host
        return True

    def upload(self, count: int) -> None:
        """Copy the first rows to the device."""
        self.device[:count].copy_(self.host[:count], non_blocking=True)

    def download(self, count: int) -> None:
        """Queue a copy of the first rows to the host; wait for the stream before reading it."""
        self.host[:count].copy_(self.device[:count], non_blocking=True)
