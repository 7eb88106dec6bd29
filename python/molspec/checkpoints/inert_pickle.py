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

#: Items of a tuple, with those of the tuples in it, of all keys and arguments of calls, and
#: containers: hashes and copies could take for ever, as few bytes may refer to one object many
#: times.
_MOST_ITEMS = 5_000_000


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

    def extend(self, values: Any) -> None:
        """Add items of a list."""
        self.items.extend(values)


class _Unpickler(pickle._Unpickler):
    """Python's own, as the native one makes a list as long as the largest index of its memo."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._tuples: dict[int, tuple[int, Any]] = {}
        self._passed = 0
        self._kinds: dict[tuple[str, str], type[Inert]] = {}

    def weigh(self) -> None:
        """Count the items of the tuple that was made last."""
        made = self.stack[-1]
        items = len(made) + sum(self._tuples.get(id(each), (0,))[0] for each in made)
        if items > _MOST_ITEMS:
            raise pickle.UnpicklingError("nested tuples of too many items")
        self._tuples[id(made)] = items, made  # which lives, so that no other has its id

    def count(self, arguments: Any = None) -> None:
        """Count the items of the arguments of a call, by default those on the stack."""
        arguments = self.stack[-1] if arguments is None else arguments
        sized = (each for each in arguments if isinstance(each, list | tuple | dict | set))
        self._pass(sum(map(len, sized)))

    def count_made(self) -> None:
        """Count a container, which takes a hundred times the bytes that make it."""
        self._pass(1)

    def count_key(self) -> None:
        """Count the items of a key, which is hashed now."""
        self._pass(sum(self._tuples.get(id(each), (0,))[0] for each in self.stack[-2:-1]))

    def count_keys(self) -> None:
        """Count those of several keys, or of items of a set."""
        self._pass(sum(self._tuples.get(id(each), (0,))[0] for each in self.stack))

    def _pass(self, items: int) -> None:
        self._passed += items
        if self._passed > _MOST_ITEMS:
            raise pickle.UnpicklingError("too many items")

    def load_bytearray(self) -> None:
        """Read bytes as far as there are any: Python's own first takes the memory for all."""
        read: Callable[[int], bytes] = vars(self)["read"]
        size = int.from_bytes(read(8), "little")
        found = bytearray(read(size))
        if len(found) < size:
            raise pickle.UnpicklingError("bytes that end too early")
        self.stack.append(found)

    def _instantiate(self, kind: Any, arguments: Any) -> None:
        self.count(arguments)
        super()._instantiate(kind, arguments)  # type: ignore[misc]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if module == "torch" and isinstance(found := getattr(torch, name, None), torch.dtype):
            return found
        if (module, name) not in self._kinds:
            self._kinds[module, name] = type(name, (Inert,), {"class_name": f"{module}.{name}"})
        return self._kinds[module, name]


def _before(check: Callable[[Any], None], step: Callable[[Any], None]) -> Callable[[Any], None]:
    def checked(unpickler: Any) -> None:
        check(unpickler)
        step(unpickler)

    return checked


_steps = _Unpickler.dispatch
for _code in (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3):
    _steps[_code[0]] = _before(_steps[_code[0]], _Unpickler.weigh)
for _code in (pickle.EMPTY_SET, pickle.EMPTY_DICT, pickle.EMPTY_LIST, pickle.LIST, pickle.DICT):
    _steps[_code[0]] = _before(_Unpickler.count_made, _steps[_code[0]])
_steps[pickle.SETITEM[0]] = _before(_Unpickler.count_key, _steps[pickle.SETITEM[0]])
for _code in (pickle.SETITEMS, pickle.ADDITEMS, pickle.FROZENSET, pickle.DICT):
    _steps[_code[0]] = _before(_Unpickler.count_keys, _steps[_code[0]])
_steps[pickle.BYTEARRAY8[0]] = _Unpickler.load_bytearray
_steps[pickle.REDUCE[0]] = _before(_Unpickler.count, _steps[pickle.REDUCE[0]])


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
