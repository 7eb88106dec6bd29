"""Reads files of torch.save with Python objects without running any of their code.

An object other than a tensor, number, text or container becomes an `Inert`, which has the class's
name and the state, and no behaviour. Nothing is imported, no constructor is called.
"""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import torch

from molspec.checkpoints.checkpoint import CheckpointError

#: The allowed calls: functions of torch that assemble tensors, and plain containers.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor"): torch._utils._rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
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
                vars(self).update({str(name): value for name, value in part.items()})

    def __setitem__(self, key: Any, value: Any) -> None:
        self.mapping[key] = value

    def append(self, value: Any) -> None:
        """Add an item of a list."""
        self.items.append(value)

    def extend(self, values: Any) -> None:
        """Add items of a list."""
        self.items.extend(values)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if module == "torch" and isinstance(found := getattr(torch, name, None), torch.dtype):
            return found
        return type(name, (Inert,), {"class_name": f"{module}.{name}"})


def load(path: Path) -> Any:
    """Read a file of torch.save, with tensors on the CPU. Raises CheckpointError."""
    safe = ModuleType("inert_pickle")  # has the names that torch.load uses of pickle
    safe.Unpickler = _Unpickler  # type: ignore[attr-defined]
    safe.load = lambda stream, **options: _Unpickler(stream, **options).load()  # type: ignore[attr-defined]
    with path.open("rb") as stream:
        try:
            if _is_torch_script(stream):
                raise ValueError("torch.load would run its TorchScript")
            return torch.load(stream, map_location="cpu", weights_only=False, pickle_module=safe)
        except Exception as error:  # a damaged file can fail anywhere in the reader
            raise CheckpointError(f"{path.name} is damaged or no file of torch.save") from error


def _is_torch_script(stream: BinaryIO) -> bool:
    """Whether torch.load would pass the file to torch.jit.load; by torch.load's own functions."""
    if not torch.serialization._is_zipfile(stream):
        return False
    with torch.serialization._open_zipfile_reader(stream) as reader:
        found = torch.serialization._is_torchscript_zip(reader)
    stream.seek(0)
    return bool(found)
