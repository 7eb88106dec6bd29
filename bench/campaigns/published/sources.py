"""Files of repositories at one commit, and the classes in them without what else they import."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

#: What the classes need, other than each other.
_NEEDED = ("import torch", "import math, copy", "from torch import nn, Tensor, FloatTensor",
           "import torch.nn.functional as F", "from torch.nn import Transformer",
           "from torch.nn.functional import log_softmax")  # fmt: skip


@dataclass(frozen=True)
class Repository:
    """A repository of GitHub at a commit; `paths` are the files and folders that are needed."""

    name: str
    commit: str
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}@{self.commit[:7]}"

    def folder(self, sources: Path) -> Path:
        """The checkout in this folder; files that are missing are downloaded."""
        found = sources / self.name.replace("/", "+")
        if not found.exists():
            found.mkdir(parents=True)
            for command in (
                ("init", "-q"),
                ("remote", "add", "origin", f"https://github.com/{self.name}"),
                ("fetch", "-q", "--depth", "1", "--filter=blob:none", "origin", self.commit),
                ("checkout", "-q", self.commit, "--", *self.paths),
            ):
                subprocess.run(("git", *command), cwd=found, check=True)
        return found


def classes(path: Path, **stand_ins: Any) -> SimpleNamespace:
    """The classes and functions of a script or a notebook; nothing else of it runs.

    stand_ins: names that they use of elsewhere.
    """
    text = path.read_text()
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        texts = ["".join(cell["source"]) for cell in cells]
    else:
        texts = [text]
    found: dict[str, Any] = dict(stand_ins)
    for line in _NEEDED:
        exec(line, found)
    for each in texts:
        code = "\n".join(line for line in each.splitlines() if not line.startswith(("%", "!")))
        tree = ast.parse(code)
        tree.body = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        exec(compile(tree, str(path), "exec"), found)
    return SimpleNamespace(**found)


def module(root: Path, name: str, stand_ins: Mapping[str, ModuleType] | None = None) -> Any:
    """A module of a package whose own `__init__` files, and what they import, do not run."""
    sys.modules.update(stand_ins or {})
    parts = name.split(".")
    for depth in range(1, len(parts)):
        package = ".".join(parts[:depth])
        if package not in sys.modules:
            bare = ModuleType(package)
            bare.__path__ = [str(root.joinpath(*parts[:depth]))]
            sys.modules[package] = bare
    return importlib.import_module(name)
