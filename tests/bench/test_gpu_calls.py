"""Runs bench/gpu without a GPU: its parts on the CPU, and the driver with parts of its own."""

import json
import os
import subprocess
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "part", ["probe", "laws-float32", "small", "real", "processes", "times", "host", "kernels"]
)
def test_a_part_runs_on_the_cpu(part: str, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    command = [sys.executable, "bench/gpu", part, "--device", "cpu", "--few", "--lines", str(path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    results = [json.loads(line) for line in path.read_text().splitlines()]
    assert {row["part"] for row in results} == {part}
    assert all(row.get("ok", True) for row in results)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The driver; without STAND_IN its limits are seconds."""
    monkeypatch.delenv("STAND_IN", raising=False)
    return import_module("calls")


WRONG = {"part": "made up", "what": "linear", "ok": False, "first_wrong": {"index": [3, 1]}}


def test_a_failed_part_is_named_and_the_others_run(calls: ModuleType, tmp_path: Path) -> None:
    call = calls.Call(tmp_path, 60)
    wrong = f"echo '{json.dumps(WRONG)}'; echo a traceback >&2; exit 1"
    assert call.run(calls.Step("good", 20, ("true",)))
    assert not call.run(
        calls.Step("wrong", 20, ("sh", "-c", wrong)),
        calls.Step("killed", 20, ("sh", "-c", "kill -SEGV $$")),
        calls.Step("endless", 1, ("sleep", "60")),
        calls.Step("also good", 20, ("true",)),
    )
    assert call.run(calls.Step("absent", 20, ("true",), needs="no-such-tool-here"))
    assert call.end() == 1
    summary = (tmp_path / "summary.txt").read_text().splitlines()
    assert summary[-1] == ("VERDICT: FAILED: wrong killed endless (2 passed, 3 failed, 1 left out)")
    assert summary[1].startswith("FAIL  wrong (status 1")
    assert '"index": [3, 1]' in summary[2]
    assert summary[3].strip() == "a traceback"
    assert any(line.startswith("FAIL  killed (status -11") for line in summary)
    assert any(line.startswith("FAIL  endless (stopped: it did not end") for line in summary)
    assert any(line.startswith("ok    also good") for line in summary)
    assert any(line.startswith("skip  absent") for line in summary)
    with tarfile.open(tmp_path / "logs.tar.gz") as logs:
        assert {"logs/wrong.txt", "logs/endless.txt"} <= set(logs.getnames())


INCOMPLETE = "VERDICT: INCOMPLETE, nothing failed; left out: "


@pytest.mark.parametrize(
    ("seconds", "commands", "verdict", "status"),
    [
        (60, ["true", "true"], "VERDICT: PASSED (2 passed, 0 failed, 0 left out)", 0),
        (60, [], f"{INCOMPLETE} (0 passed, 0 failed, 0 left out)", 1),
        (1, ["true"], f"{INCOMPLETE}0 (0 passed, 0 failed, 1 left out)", 1),
    ],
)
def test_only_a_call_whose_parts_all_passed_has_passed(
    calls: ModuleType, tmp_path: Path, seconds: int, commands: list[str], verdict: str, status: int
) -> None:
    call = calls.Call(tmp_path, seconds)
    for number, command in enumerate(commands):
        assert call.run(calls.Step(str(number), 20, (command,))) == (seconds == 60)
    assert call.end() == status
    assert (tmp_path / "summary.txt").read_text().splitlines()[-1] == verdict


def test_nothing_is_timed_after_a_failed_check(tmp_path: Path) -> None:
    """All parts are cut off at once: the script still writes all its files."""
    environment = {**os.environ, "PYTHON": sys.executable, "STAND_IN": "1", "SLOWER": "0.04"}
    environment["PATH"] = "/usr/bin:/bin"
    command = ["bash", "bench/gpu.sh", "first", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    files = {"logs.tar.gz", "results.jsonl", "summary.txt"}
    assert files <= {path.name for path in tmp_path.iterdir()}
    summary = (tmp_path / "summary.txt").read_text().splitlines()
    assert run.stdout.splitlines() == summary
    assert "skip  times: a check failed: see above" in summary
    assert summary[-1].startswith("VERDICT: FAILED: probe")
