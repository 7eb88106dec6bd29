"""The drafter of docs/own-drafter.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "own-drafter.md"


def test_the_example_runs_and_is_short() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    drafter = code[code.index("class ") : code.index("\n\nmodel = ")]
    assert len([line for line in drafter.splitlines() if line.strip()]) < 40
    exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
