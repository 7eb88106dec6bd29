"""Replaces RDKit, which a GPU machine without a network may lack; all queries here are valid.

It checks no SMILES and writes none: options that need canonical SMILES fail.
"""

import importlib.util
import sys
from collections.abc import Iterator
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Anything(ModuleType):
    """A module, class, function or molecule: it has every name, and its calls return it."""

    __path__: list[str] = []  # noqa: RUF012 - as packages have it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: object, **__: object) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __contains__(self, _: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return False  # of the faults of a molecule: there are none

    def __or__(self, _: object) -> Any:
        return self

    def __str__(self) -> str:
        raise RuntimeError("RDKit is not installed: expected no use of the SMILES that it writes")


class _Finder(Loader):
    """Finds and loads `rdkit` and its modules."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        is_rdkit = name.partition(".")[0] == "rdkit"
        return ModuleSpec(name, self, is_package=True) if is_rdkit else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Anything(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def provide() -> None:
    """Replace RDKit if it is missing."""
    if importlib.util.find_spec("rdkit") is None:
        sys.meta_path.append(_Finder())


def replaced() -> bool:
    """Whether RDKit is missing."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)
