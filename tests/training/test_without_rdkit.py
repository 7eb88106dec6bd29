"""A model is trained without RDKit and without the compiled part, as a rented GPU may have it."""

import subprocess
import sys
from pathlib import Path

from molspec import checkpoints

_BLOCKED = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "rdkit" or name == "molspec._native":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from molspec.commands.cli import main
main()
"""


def _train(data: Path, output: Path, more: str = "") -> subprocess.CompletedProcess[str]:
    sizes = output.parent / "sizes.json"
    sizes.write_text('{"model": {"d_model": 16, "head_count": 2, "feed_forward": 16}}')
    short = "--steps 4 --validate-every 2 --decoded-pairs 0"
    arguments = f"train --data {data} --output {output} --config {sizes} {short} {more}".split()
    command = [sys.executable, "-c", _BLOCKED, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_training_needs_neither(data: Path, tmp_path: Path) -> None:
    run = _train(data, tmp_path / "run", "--no-ngram")
    assert run.returncode == 0, run.stderr
    assert checkpoints.read(tmp_path / "run" / "model").ngram is None


def test_an_n_gram_model_that_cannot_be_made_is_told_before_the_training(
    data: Path, tmp_path: Path
) -> None:
    run = _train(data, tmp_path / "run")
    assert run.returncode == 2
    assert "ngram is true: expected false" in " ".join(run.stderr.split())
    assert not (tmp_path / "run").exists()
