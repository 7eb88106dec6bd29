"""The models that come with the package, one folder each; finds any model by name or path."""

import os
from pathlib import Path

from molspec.checkpoints.checkpoint import CheckpointError
from molspec.common.console import quoted

_FOLDER = Path(__file__).parent


def bundled_names() -> tuple[str, ...]:
    """Names of the models that come with the package."""
    return tuple(sorted(config.parent.name for config in _FOLDER.glob("*/config.json")))


def locate(name_or_path: str | Path) -> Path:
    """The folder or file of a model, given a bundled model's name or a path.

    To use an own folder with the name of a bundled model, write "./product".

    Raises CheckpointError if there is neither.
    """
    if not isinstance(name_or_path, str | os.PathLike):
        raise CheckpointError(
            f"name_or_path is {name_or_path!r}: expected {_names()}, or the path of a checkpoint"
        )
    if name_or_path in bundled_names():
        return _FOLDER / name_or_path
    # For a name that is too long, os.path finds nothing, while Path raises OSError.
    if not str(name_or_path) or not os.path.exists(Path(name_or_path)):
        also = " as a string, for a Path is always a path" if isinstance(name_or_path, Path) else ""
        one = "; here several cannot be averaged" if "+" in str(name_or_path) else ""
        raise CheckpointError(
            f"no model {quoted(str(name_or_path))}: expected {_names()}{also}, "
            f"or the path of a checkpoint{one}"
        )
    return Path(name_or_path)


def _names() -> str:
    return " or ".join(bundled_names())
