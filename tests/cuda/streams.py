"""A stand-in for CUDA streams, which the emulated machine lacks: who has waited for whom."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Stream:
    """What is queued on it is numbered; `seen` is the last number of each stream it comes after."""

    def __init__(self) -> None:
        self.queued = 0
        self.seen: dict[Stream, int] = {}

    def wait_stream(self, other: Stream) -> None:
        self.seen = {**self.seen, **other.seen, other: other.queued}


class Streams(TorchDispatchMode):
    """Watches tensors that the session's stream makes and the caller's reads: `reads` of them, and
    the `faults` among these. A session joins by `join`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._callers, self._sessions = Stream(), Stream()
        self._current = self._callers
        #: By address: when on the session's stream, and the tensor, that nothing else lies there.
        self._made: dict[int, tuple[int, Tensor]] = {}
        self._lasts: set[int] = set()
        self.reads, self.faults = 0, list[str]()
        monkeypatch.setattr(torch.cuda, "stream", self._on)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _: self._current)
        monkeypatch.setattr(torch.Tensor, "record_stream", lambda *given: self._record(*given))

    def join(self, session: Any) -> None:
        session._stream = self._sessions

    @contextmanager
    def _on(self, stream: Stream) -> Iterator[None]:
        before, self._current = self._current, stream
        yield
        self._current = before

    def _record(self, tensor: Tensor, stream: Stream) -> None:
        assert stream is self._callers
        self._lasts.add(_address(tensor))

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), keywords: Any = None
    ) -> Any:
        del types
        result = function(*arguments, **(keywords or {}))
        stream = self._current
        stream.queued += 1
        flat = [each for a in arguments for each in (a if isinstance(a, list | tuple) else [a])]
        given = [_address(each) for each in flat if isinstance(each, Tensor)]
        if stream is self._sessions:
            # What is made of no other memory, or written again: the host's own is no device's.
            if isinstance(result, Tensor) and (
                (made := _address(result)) not in given or made in self._made
            ):
                self._made[made] = stream.queued, result
            if function.name().endswith("::refuse_fault"):
                self._callers.wait_stream(stream)  # the host waits, and so what it queues next
            return result
        for address in given:
            if address in self._made and function.name() != "aten::detach":  # `numpy`: the host's
                self._read(function.name(), address)
        return result

    def _read(self, name: str, address: int) -> None:
        self.reads += 1
        if self._made[address][0] > self._callers.seen.get(self._sessions, 0):
            self.faults.append(f"{name} does not wait for what it reads")
        if address not in self._lasts:
            self.faults.append(f"{name} reads what may be given back")


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
