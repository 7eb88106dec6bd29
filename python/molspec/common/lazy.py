"""Names of a package whose modules are imported when a name is first used."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def imported_when_used(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package: torch is imported only for names that need it.

    The names are those that its file imports `if TYPE_CHECKING:`, as `from module import a as a`,
    which type checkers take for the package's own. `__all__` has them too.
    """

    @cache
    def homes() -> dict[str, str]:
        """The module of each name."""
        lines = ast.parse(Path(file).read_text(encoding="utf-8")).body
        (block,) = (each for each in lines if isinstance(each, ast.If))
        return {
            alias.name: str(each.module)
            for each in block.body
            if isinstance(each, ast.ImportFrom)
            for alias in each.names
        }

    def get(name: str) -> Any:
        if name == "__all__":
            return names()
        if name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes()[name]
        if home != package and hasattr(module := import_module(home), name):
            return getattr(module, name)
        return import_module(f"{home}.{name}")

    def names() -> list[str]:
        return sorted(homes())

    return get, names
