"""Counts the lines of each ring, and fails if one has more than its budget.

A budget falls when lines leave, and may move from ring to ring; the sums of decision 68 stay.
"""

import sys
from pathlib import Path

_PACKAGE = "python/molspec"
#: The folders of each ring (docs/architecture.md) and the most lines that they may have.
_BUDGETS = {
    "tools": (
        13_140,
        (
            *("commands", "server", "planners", "ray.py", "files", "training", "evaluation"),
            *("__init__.py", "__main__.py", "__pyinstaller"),
        ),
    ),
    "prediction": (9_205, ("drop_in", "prediction", "drafting", "checkpoints", "text")),
    "core": (7_015, ("decoding", "engine", "model", "common")),
}
_OTHERS = {"csrc": 14_640, "tests": 28_500, "bench": 6_500}
_CODE = {".py", ".h", ".cpp", ".cu", ".cuh", ".inl", ".sh"}


def lines(path: Path) -> int:
    """The lines of a file, or of all code in a folder."""
    files = [path] if path.is_file() else path.rglob("*")
    code = (file for file in files if file.suffix in _CODE)
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in code)


def main() -> None:
    """Print a line a ring."""
    root = Path(__file__).parent.parent
    rings = {
        name: (budget, [root / _PACKAGE / folder for folder in folders])
        for name, (budget, folders) in _BUDGETS.items()
    } | {name: (budget, [root / name]) for name, budget in _OTHERS.items()}
    excess = []
    for name, (budget, paths) in rings.items():
        count = sum(map(lines, paths))
        print(f"{name:10} {count:6} lines of at most {budget}")
        if count > budget:
            excess.append(name)
    if excess:
        sys.exit(f"more lines than the budget of {', '.join(excess)} in .ci/lines.py")


if __name__ == "__main__":
    main()
