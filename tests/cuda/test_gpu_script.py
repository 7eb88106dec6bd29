"""Runs bench/gpu without a GPU: all parts but the build, the sanitizers and the graph costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("part", ["laws", "small", "times", "kernels"])
def test_a_part_runs_on_the_cpu(part: str, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    command = [sys.executable, "bench/gpu", part, "--device", "cpu", "--few", "--lines", str(path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    results = rows(path)
    assert {row["part"] for row in results} == {part}
    assert all(row.get("ok", True) for row in results)


def test_script_writes_its_summary_if_every_part_times_out(tmp_path: Path) -> None:
    """The interpreter sleeps for a minute: parts are cut off until no time is left."""
    slow = tmp_path / "python"
    slow.write_text('#!/bin/sh\nshift 3; echo \'{"part": "cut off"}\' >> "$1"; sleep 60\n')
    slow.chmod(0o755)
    folder = tmp_path / "results"
    environment = {
        **os.environ,
        "PYTHON": str(slow),
        "STAND_IN": "1",
        "SECONDS_IN_ALL": "7",
        "PATH": "/usr/bin:/bin",
    }
    command = ["bash", "bench/gpu.sh", str(folder)]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 1
    assert sorted(path.name for path in folder.iterdir()) == [
        "logs.tar.gz",
        "results.jsonl",
        "summary.txt",
    ]
    summary = run.stdout.splitlines()
    assert summary == (folder / "summary.txt").read_text().splitlines()
    assert summary[0].startswith("FAIL  checks (status 124")
    assert any(line.startswith("skip  times: no time is left") for line in summary)
    assert rows(folder / "results.jsonl") == [{"part": "cut off"}]
    assert summary[-2].startswith("1 lines of results")
    failed = sum(line.startswith("FAIL") for line in summary)
    assert summary[-1].startswith(f"VERDICT: 0 parts passed, {failed} failed, ")
