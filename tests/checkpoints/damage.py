"""Changes of what a checkpoint stores, for tests of the errors that name them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

#: Stands for a value that is taken away.
ABSENT = object()


def put(value: Any, *keys: str) -> Callable[[Any], None]:
    """Sets a value in an object of mappings and attributes, or takes it away."""

    def change(stored: Any) -> None:
        for key in keys[:-1]:
            stored = stored[key]
        if not isinstance(stored, dict):
            setattr(stored, keys[-1], value)
        elif value is ABSENT:
            del stored[keys[-1]]
        else:
            stored[keys[-1]] = value

    return change


def in_json(file: str, **values: Any) -> Callable[[Path], None]:
    """Sets fields of a JSON file in a folder."""

    def change(folder: Path) -> None:
        stored = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**stored, **values}))

    return change


def in_weights(edit: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    """Changes the tensors of model.safetensors in a folder."""

    def change(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        edit(weights)
        save_file(weights, folder / "model.safetensors")

    return change
