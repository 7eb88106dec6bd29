"""Names of a package whose modules are imported when a name is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def imported_when_used(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """A `__getattr__` of a package: torch is imported only for names that need it.

    names: of each module; its own name stands for the module, unless it has such a name.
    """
    homes = {name: module for module, some in names.items() for name in some}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(homes[name])
        is_itself = homes[name].endswith(f".{name}") and not hasattr(module, name)
        return module if is_itself else getattr(module, name)

    return get
