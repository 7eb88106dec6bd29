"""The models that come with the package, one folder each, and how any model is found by name."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def bundled_names() -> tuple[str, ...]:
    """Names of the models that come with the package."""
    return tuple(sorted(config.parent.name for config in _FOLDER.glob("*/config.json")))


def locate(name_or_path: str | Path) -> Path:
    """Folder or file of a model: a bundled model's name, otherwise a path.

    A folder of one's own that is called like a bundled model is meant by "./product".

    Raises ValueError where there is neither.
    """
    if name_or_path in bundled_names():
        return _FOLDER / name_or_path
    if not str(name_or_path) or not Path(name_or_path).exists():
        raise ValueError(
            f"no model {str(name_or_path)!r}: expected {' or '.join(bundled_names())}, "
            "or the path of a checkpoint"
        )
    return Path(name_or_path)
