"""A stand-in for CUDA streams, which the emulated machine lacks: tracks their waits."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from molspec.engine.cuda.graphs import Graphs


class Stream:
    """Numbers the work queued on it; `seen` has the last number of each stream it waited for."""

    def __init__(self) -> None:
        self.queued = 0
        self.seen: dict[Stream, int] = {}

    def wait_stream(self, other: Stream) -> None:
        self.seen = {**self.seen, **other.seen, other: other.queued}


class Streams(TorchDispatchMode):
    """Watches the tensors that the session's stream writes and the caller's stream reads: counts
    `reads` and lists their `faults`. `join` puts caches on the session's stream.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._caller_stream, self._session_stream = Stream(), Stream()
        self._current = self._caller_stream
        #: By address: the number of the write, and the tensor, which keeps the address in use.
        self._written: dict[int, tuple[int, Tensor]] = {}
        self._recorded: set[int] = set()
        self.reads, self.faults = 0, list[str]()
        monkeypatch.setattr(torch.cuda, "stream", self._on)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _: self._current)
        monkeypatch.setattr(torch.Tensor, "record_stream", lambda *given: self._record(*given))

    def join(self, caches: Any) -> None:
        caches.stream = self._session_stream

    @contextmanager
    def _on(self, stream: Stream) -> Iterator[None]:
        before, self._current = self._current, stream
        yield
        self._current = before

    def _record(self, tensor: Tensor, stream: Stream) -> None:
        assert stream is self._caller_stream
        self._recorded.add(_address(tensor))

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), keywords: Any = None
    ) -> Any:
        del types
        result = function(*arguments, **(keywords or {}))
        stream = self._current
        stream.queued += 1
        flat = [value for a in arguments for value in (a if isinstance(a, list | tuple) else [a])]
        addresses = [_address(value) for value in flat if isinstance(value, Tensor)]
        if stream is self._session_stream:
            # Results in new memory, or in memory written before; not views of host memory.
            if isinstance(result, Tensor) and (
                (result_address := _address(result)) not in addresses
                or result_address in self._written
            ):
                self._written[result_address] = stream.queued, result
            if function.name().endswith("::refuse_fault"):
                self._caller_stream.wait_stream(stream)  # the host waits, and so does its next work
            return result
        for address in addresses:
            if address in self._written and function.name() != "aten::detach":  # `numpy` detaches
                self._read(function.name(), address)
        return result

    def _read(self, name: str, address: int) -> None:
        self.reads += 1
        if self._written[address][0] > self._caller_stream.seen.get(self._session_stream, 0):
            self.faults.append(f"{name} does not wait for what it reads")
        if address not in self._recorded:
            self.faults.append(f"{name} reads what may be given back")


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class Recorder(Graphs):
    """Runs work at once, without graphs. Records the sizes of graphs of steps and rounds, the
    lengths of encoder graphs, and the number of marks that are not yet waited for.
    """

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self.sizes: list[Hashable] = []
        self.encoded: list[int] = []
        self.unwaited_count = 0
        self._callbacks: list[Callable[[], None]] = []

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        if isinstance(key, tuple) and key[0] == "encode":
            self.encoded.append(key[1])
        else:
            self.sizes.append(key)
        work()

    def handle(self, key: Hashable, work: Callable[[], None]) -> int:
        run = ctypes.CFUNCTYPE(None)(lambda: self.run(key, work))
        self._callbacks.append(run)
        address = ctypes.cast(run, ctypes.c_void_p).value
        assert address is not None
        return address

    def mark(self) -> Callable[[], None]:
        self.unwaited_count += 1
        return self._wait

    def _wait(self) -> None:
        self.unwaited_count -= 1
