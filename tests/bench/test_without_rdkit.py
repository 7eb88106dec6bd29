"""The stand-in for RDKit: a GPU machine without it imports all parts and predicts."""

import subprocess
import sys
from pathlib import Path

_HIDE_RDKIT = """
import runpy, sys
from importlib.machinery import PathFinder

class Hidden(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "rdkit" else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Hidden
for script in ("__main__", "prove"):
    runpy.run_path(f"bench/gpu/{script}.py")
"""
_PREDICT = """
from tests import tiny
for options in ({}, {"target_prefix": "CC"}):
    (result,) = tiny.model().predict(["c1ccccc1"], max_length=5, **options)
    print(result.error, len(result.predictions))
"""
_PROCESSES = """
sys.argv = ["bench/gpu", "processes", "--device", "cpu", "--few"]
runpy.run_path("bench/gpu/__main__.py", run_name="__main__")
"""


def _run(script: str) -> "subprocess.CompletedProcess[str]":
    command, root = [sys.executable, "-c", _HIDE_RDKIT + script], Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_the_parts_are_imported_and_predict_without_rdkit() -> None:
    run = _run(_PREDICT)
    assert run.stdout.split() == ["None", "1"] * 2, run.stderr


def test_processes_without_rdkit_answer_every_query() -> None:
    run = _run(_PROCESSES)
    assert not run.returncode, run.stderr
    assert run.stdout.count('"ok": true') == 2
