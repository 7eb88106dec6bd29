"""The examples of docs/drop-in.md run as they stand there."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "drop-in.md"
EXAMPLES = re.findall(r"^## (.+?)$.*?^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(("title", "code"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_example(title: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "transformers" in code and find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    torch.manual_seed(0)
    exec(compile(code, f"docs/drop-in.md: {title}", "exec"), {})
    assert capsys.readouterr().out


def test_there_are_three() -> None:
    assert len(EXAMPLES) == 3
