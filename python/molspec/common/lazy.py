"""Names of a package whose modules are imported when a name is first used."""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def imported_when_used(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package: torch is imported only for names that need it.

    The names are those that its code, which calls this, imports `if TYPE_CHECKING:`, as `from
    module import a as a`, which type checkers take for the package's own. `__all__` has them too.
    They are read from its bytecode: an installation may have no sources.
    """
    code = sys._getframe(1).f_code

    @cache
    def homes() -> dict[str, str]:
        """The module of each name."""
        from dis import get_instructions

        found, home = {}, ""
        for each in get_instructions(code):
            if each.opname == "IMPORT_NAME":
                home = each.argval
            elif each.opname == "IMPORT_FROM" and home != __name__ and home.startswith("molspec"):
                found[each.argval] = home
        return found

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
