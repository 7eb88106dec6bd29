"""Files of torch.save that hold Python objects, read without running any of their code.

Whatever is no tensor, number, text or container becomes an `Inert`: it remembers the class's name
and its state and can do nothing. Nothing is imported, no constructor is called.
"""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from molspec.checkpoints.checkpoint import CheckpointError

#: What may be called: functions of torch that put tensors together, and plain containers.
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
    """An object that was not loaded: its class's name, its attributes, and what it contains."""

    class_name = "object"
    __slots__ = ("__dict__", "items", "mapping")
    items: list[Any]
    mapping: dict[Any, Any]

    def __new__(cls, *_arguments: Any, **_options: Any) -> Inert:
        """Make one, whatever a pickle gives for arguments: many never call __init__."""
        inert = super().__new__(cls)
        inert.items, inert.mapping = [], {}
        return inert

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        """Do nothing with what a constructor would be given."""

    def __setstate__(self, state: Any) -> None:
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:  # __dict__ and, of classes with slots, theirs
            if isinstance(part, dict):
                vars(self).update({str(name): value for name, value in part.items()})

    def __setitem__(self, key: Any, value: Any) -> None:
        self.mapping[key] = value

    def append(self, value: Any) -> None:
        """Keep an item of a list."""
        self.items.append(value)

    def extend(self, values: Any) -> None:
        """Keep items of a list."""
        self.items.extend(values)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if module == "torch" and isinstance(found := getattr(torch, name, None), torch.dtype):
            return found
        return type(name, (Inert,), {"class_name": f"{module}.{name}"})


def load(path: Path) -> Any:
    """What a file of torch.save holds, tensors on the CPU. Raises CheckpointError."""
    safe = ModuleType("inert_pickle")  # what torch.load asks of a module like pickle
    safe.Unpickler = _Unpickler  # type: ignore[attr-defined]
    safe.load = lambda stream, **options: _Unpickler(stream, **options).load()  # type: ignore[attr-defined]
    with path.open("rb") as stream:
        try:
            return torch.load(stream, map_location="cpu", weights_only=False, pickle_module=safe)
        except Exception as error:  # a damaged file can fail anywhere in the reader
            raise CheckpointError(f"{path.name} is damaged or no file of torch.save") from error
