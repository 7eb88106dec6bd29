"""Names of a package whose modules are imported when a name is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported_when_used(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` of a package: torch is imported only for names that need it.

    homes: the module of each name; a module's own name if it is one.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(homes[name])
        is_itself = homes[name].endswith(f".{name}") and not hasattr(module, name)
        return module if is_itself else getattr(module, name)

    return get
