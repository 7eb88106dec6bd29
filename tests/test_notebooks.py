"""The notebooks run, and print their saved output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def saved_output(cell: dict[str, Any]) -> str:
    """The text that a cell had printed when the notebook was saved."""
    streams = (output for output in cell["outputs"] if output["output_type"] == "stream")
    return "".join("".join(output["text"]) for output in streams)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.name for path in NOTEBOOKS])
def test_notebook_prints_its_saved_output(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
            assert capsys.readouterr().out == saved_output(cell)


def test_all_notebooks_are_tested() -> None:
    names = ["drafter.ipynb", "first_steps.ipynb", "planner.ipynb"]
    assert [path.name for path in NOTEBOOKS] == names
