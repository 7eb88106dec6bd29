"""Reads files of torch.save with Python objects without running any of their code.

An object other than a tensor, number, text or container becomes an `Inert`, which has the class's
name and the state, and no behaviour. Nothing is imported, no constructor is called. A file takes
no more memory than it has bytes, and no more time: its texts are bounded while they are read.
"""

from __future__ import annotations

import collections
import os
import pickle
import zipfile
from collections.abc import Callable
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, ClassVar

import torch

from molspec.checkpoints.checkpoint import CheckpointError

#: Containers, and objects that are used again with their items: hashes and copies could take for
#: ever, as few bytes may refer to one object many times.
_MOST_ITEMS = 5_000_000
_CONTAINERS = (list, tuple, dict, set, frozenset)


def _rebuild_tensor(storage: Any, offset: Any, size: Any, *rest: Any) -> torch.Tensor:
    """A tensor that is not larger than its storage, as one of strides of 0 may be."""
    if prod(size) > storage._size():  # `size` warns
        raise pickle.UnpicklingError(f"a tensor of shape {tuple(size)}: larger than its data")
    rebuild = torch._utils._rebuild_tensor_v2 if len(rest) > 1 else torch._utils._rebuild_tensor
    return rebuild(storage, offset, size, *rest)  # type: ignore[no-any-return]


#: The allowed calls: functions of torch that assemble tensors, and plain containers.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): torch._utils._rebuild_parameter,
    ("torch", "Size"): torch.Size,
    ("torch", "device"): torch.device,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("builtins", "set"): set,
    ("__builtin__", "set"): set,
}


class Inert:
    """An object that was not loaded: its class's name, its attributes and its items."""

    class_name = "object"
    __slots__ = ("__dict__", "items", "mapping")
    items: list[Any]
    mapping: dict[Any, Any]

    def __new__(cls, *_arguments: Any, **_options: Any) -> Inert:
        """Create one with any arguments: many pickles never call __init__."""
        inert = super().__new__(cls)
        inert.items, inert.mapping = [], {}
        return inert

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        """Ignore the arguments of the constructor."""

    def __setstate__(self, state: Any) -> None:
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:  # __dict__ and the slots, if there are any
            if isinstance(part, dict):
                vars(self).update({k: v for k, v in part.items() if isinstance(k, str)})

    def __setitem__(self, key: Any, value: Any) -> None:
        self.mapping[key] = value

    def append(self, value: Any) -> None:
        """Add an item of a list."""
        self.items.append(value)


class _Unpickler(pickle._Unpickler):
    """Python's own, as the native one makes a list as long as the largest index of its memo."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._left = _MOST_ITEMS
        self._kinds: dict[tuple[str, str], type[Inert]] = {}

    def count(self, found: Any) -> None:
        """Count an object and the items of its tuples, which its hash visits."""
        self._left -= 1 + (len(found) if isinstance(found, _CONTAINERS) else 0)
        if self._left < 0:
            raise pickle.UnpicklingError("too many containers, or objects that are used again")
        if isinstance(found, tuple):
            for item in found:
                self.count(item)

    def load_bytearray(self) -> None:
        """Read bytes as far as there are any: Python's own first takes the memory for all."""
        read: Callable[[int], bytes] = vars(self)["read"]
        size = int.from_bytes(read(8), "little")
        found = bytearray(read(size))
        if len(found) < size:
            raise pickle.UnpicklingError("bytes that end too early")
        self.stack.append(found)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if module == "torch" and isinstance(found := getattr(torch, name, None), torch.dtype):
            return found
        if (module, name) not in self._kinds:
            self._kinds[module, name] = type(name, (Inert,), {"class_name": f"{module}.{name}"})
        return self._kinds[module, name]


def _counted(step: Callable[[Any], None]) -> Callable[[Any], None]:
    def counted(unpickler: Any) -> None:
        step(unpickler)
        unpickler.count(unpickler.stack[-1])

    return counted


_steps = _Unpickler.dispatch
_steps[pickle.BYTEARRAY8[0]] = _Unpickler.load_bytearray
# All that puts an object on the stack again, and containers, which take a hundred times their byte.
_AGAIN = (pickle.GET, pickle.BINGET, pickle.LONG_BINGET, pickle.DUP)
_MADE = (pickle.EMPTY_SET, pickle.EMPTY_DICT, pickle.EMPTY_LIST, pickle.LIST, pickle.DICT)
for _code in (*_AGAIN, *_MADE, pickle.FROZENSET):
    _steps[_code[0]] = _counted(_steps[_code[0]])


def load(path: Path) -> Any:
    """Read a file of torch.save, with tensors on the CPU. Raises CheckpointError."""
    safe = ModuleType("inert_pickle")  # has the names that torch.load uses of pickle
    safe.Unpickler = _Unpickler  # type: ignore[attr-defined]
    safe.load = lambda stream, **options: _Unpickler(stream, **options).load()  # type: ignore[attr-defined]
    with path.open("rb") as stream:
        try:
            _check_size(stream)
            if _is_torch_script(stream):
                raise ValueError("torch.load would run its TorchScript")
            return torch.load(stream, map_location="cpu", weights_only=False, pickle_module=safe)
        except Exception as error:  # a damaged file can fail anywhere in the reader
            raise CheckpointError(f"{path.name} is damaged or no file of torch.save") from error


def _check_size(stream: BinaryIO) -> None:
    """Raise ValueError for an archive with more than its bytes: compressed, or the same twice."""
    if zipfile.is_zipfile(stream):
        with zipfile.ZipFile(stream) as archive:
            inside = sum(part.file_size for part in archive.infolist())
        if inside > stream.seek(0, os.SEEK_END):
            raise ValueError("torch.save compresses nothing")
    stream.seek(0)


def _is_torch_script(stream: BinaryIO) -> bool:
    """Whether torch.load would pass the file to torch.jit.load; by torch.load's own functions."""
    if not torch.serialization._is_zipfile(stream):
        return False
    with torch.serialization._open_zipfile_reader(stream) as reader:
        found = torch.serialization._is_torchscript_zip(reader)
    stream.seek(0)
    return bool(found)
