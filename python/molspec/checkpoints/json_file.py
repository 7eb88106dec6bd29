"""JSON objects in files, with errors that name the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from molspec.checkpoints.checkpoint import CheckpointError


def read_object(path: Path) -> dict[str, Any]:
    """Read the object in `path`. Raises CheckpointError where there is another thing in it."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path.name} is no JSON: {error}") from error
    except RecursionError as error:
        raise CheckpointError(f"{path.name} is nested too deeply") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path.name} holds a {type(values).__name__}: expected an object")
    return values


def write_object(path: Path, values: dict[str, Any]) -> None:
    """Write `values` to `path`, a key a line."""
    lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
