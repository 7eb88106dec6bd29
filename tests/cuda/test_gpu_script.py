"""What of bench/gpu runs without a GPU: all but the build, the sanitizer and the graph costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_script_is_bash() -> None:
    subprocess.run(["bash", "-n", str(ROOT / "bench" / "gpu.sh")], check=True)


@pytest.mark.parametrize("part", ["laws", "small", "times", "kernels"])
def test_a_part_runs_on_the_cpu(part: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [sys.executable, "bench/gpu", part, "--device", "cpu", "--few", "--json", str(path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    report = json.loads(path.read_text())
    assert report["part"] == part
    assert report.get("ok", True)
