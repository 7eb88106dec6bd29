"""The notebooks run, and print what they show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def shown(cell: dict[str, Any]) -> str:
    """What a cell printed when the notebook was saved."""
    streams = (output for output in cell["outputs"] if output["output_type"] == "stream")
    return "".join("".join(output["text"]) for output in streams)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.name for path in NOTEBOOKS])
def test_notebook(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
            assert capsys.readouterr().out == shown(cell)


def test_there_are_three() -> None:
    names = ["drafter.ipynb", "first_steps.ipynb", "planner.ipynb"]
    assert [path.name for path in NOTEBOOKS] == names
