"""Finds, reads and writes files of checkpoints; errors name the file."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from molspec.checkpoints.checkpoint import CheckpointError
from molspec.common import console, fields

ValueT = TypeVar("ValueT")
#: Between the number of a part and the number of parts.
_PART = "-of-"


def only_file(path: Path, pattern: str) -> Path:
    """The file `path`, or the only such one in the folder `path`. Raises CheckpointError."""
    files = sorted(path.glob(pattern)) if path.is_dir() else [path]
    return only(files, "checkpoints, name one or leave one")


def only(files: Sequence[Path], what: str) -> Path:
    """The only one of them. Raises CheckpointError if there are several or none."""
    if len(files) != 1:
        raise CheckpointError(f"has {len(files)} {what}: {', '.join(file.name for file in files)}")
    return files[0]


def load_weights(path: Path) -> dict[str, Tensor]:
    """Tensors of a file of safetensors. Raises CheckpointError if it is damaged.

    It is read: a file that is mapped ends this process when another one truncates it.
    """
    with console.prefixing(f"{path.name} is damaged: ", CheckpointError, SafetensorError):
        return load(path.read_bytes())


def weight_files(folder: Path, whole: str) -> list[Path]:
    """The file `whole`, or its parts: a-00001-of-00002.b and a-00002-of-00002.b for a.b."""
    if (folder / whole).is_file():
        return [folder / whole]
    stem, suffix = whole.split(".")
    number = 5 * "[0-9]"
    return sorted(folder.glob(f"{stem}-{number}-of-{number}.{suffix}"))


def load_parts(
    files: Sequence[Path], load_one: Callable[[Path], Mapping[str, ValueT]]
) -> dict[str, ValueT]:
    """Join the tensors of `weight_files`, each loaded by `load_one`.

    Raises CheckpointError, naming the part, if one is missing or does not belong to the others, as
    the index beside them has it, if there is one.
    """
    if len(files) == 1 and _PART not in files[0].stem:
        return dict(load_one(files[0]))
    _check_names(files)
    first = files[0]
    index = first.with_name(f"{first.stem.rpartition(_PART)[0][:-6]}{first.suffix}.index.json")
    placed = None
    if index.is_file():
        placed = read_object(index).get("weight_map")
        if not isinstance(placed, dict):
            raise CheckpointError(f"{index.name} has weight_map {placed!r}: expected an object")
    weights: dict[str, ValueT] = {}
    for file in files:
        part = load_one(file)
        if twice := sorted(weights.keys() & part.keys()):
            raise CheckpointError(f"{file.name} has {twice[0]}, which a part before it has too")
        own = part.keys() if placed is None else {n for n in placed if placed[n] == file.name}
        if strange := sorted(own ^ part.keys()):
            where = (placed or {}).get(strange[0], "no part")
            raise CheckpointError(
                f"{file.name} is of another model: {index.name} has {strange[0]} in {where}"
            )
        weights.update(part)
    return weights


def _check_names(files: Sequence[Path]) -> None:
    """Raise CheckpointError, naming it, if a part is missing or one of another number."""
    begin, _, count = files[0].stem.rpartition(_PART)
    names = {file.name for file in files}
    numbers = range(1, int(count) + 1)
    wanted = {f"{begin[:-5]}{n:05}{_PART}{count}{files[0].suffix}" for n in numbers}
    if others := sorted(names - wanted):
        raise CheckpointError(f"{others[0]} is of another model than {files[0].name}")
    if missing := sorted(wanted - names):
        raise CheckpointError(f"{missing[0]} is missing")


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in `path`. Raises CheckpointError if there is none."""
    try:
        values = json.loads(path.read_text("utf-8"), object_pairs_hook=fields.each_once)
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
    with console.naming(path):
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
