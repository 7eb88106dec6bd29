"""Finds, reads and writes files of checkpoints; errors name the file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from molspec.checkpoints.checkpoint import CheckpointError
from molspec.common.console import naming


def only_file(path: Path, pattern: str, what: str = "checkpoints, name one") -> Path:
    """The file `path`, or the only such one in the folder `path`. Raises CheckpointError."""
    files = sorted(path.glob(pattern)) if path.is_dir() else [path]
    return only(files, what)


def only(files: Sequence[Path], what: str) -> Path:
    """The only one of them. Raises CheckpointError if there are several or none."""
    if len(files) != 1:
        raise CheckpointError(f"has {len(files)} {what}: {', '.join(file.name for file in files)}")
    return files[0]


def load_weights(paths: Iterable[Path]) -> dict[str, Tensor]:
    """Tensors of files of safetensors. Raises CheckpointError if one is damaged.

    They are read: a file that is mapped ends this process when another one truncates it.
    """
    weights: dict[str, Tensor] = {}
    for path in paths:
        try:
            weights |= load(path.read_bytes())
        except SafetensorError as error:
            raise CheckpointError(f"{path.name} is damaged: {error}") from error
    return weights


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in `path`. Raises CheckpointError if there is none."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path.name} is not JSON: {error}") from error
    except RecursionError as error:
        raise CheckpointError(f"{path.name} is nested too deeply") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path.name} holds a {type(values).__name__}: expected an object")
    return values


def check_format(file: str, values: Mapping[str, Any], kind: str, version: int) -> None:
    """Raise CheckpointError unless a file's values say this format and version."""
    found = values.get("format"), values.get("format_version")
    if found != (kind, version):
        raise CheckpointError(
            f"{file} says format {found[0]!r}, version {found[1]!r}: expected {kind!r}, {version}"
        )


def write_object(path: Path, values: dict[str, Any]) -> None:
    """Write `values` to `path`, a key a line, as `write_file` does."""
    lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
    write_file(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def write_file(path: Path, data: bytes) -> None:
    """Write a file, or the file that a link leads to, completely or not at all.

    Pipes and devices are written directly. Raises OSError, naming the file.
    """
    with naming(path):
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        target = Path(os.path.realpath(path))
        unfinished = target.with_name(target.name + ".unfinished")
        try:
            unfinished.write_bytes(data)
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
