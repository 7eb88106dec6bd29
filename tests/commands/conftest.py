"""A folder for each test of a command, in which its files are; commands in a shell."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The command line with the fake model.
PROGRAM = [sys.executable, "-m", "tests.cli_with_fake_model"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        yield


def write(name: str, text: str) -> None:
    """Writes a file there."""
    Path(name).write_text(text, encoding="utf-8")


def in_shell(arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line with the fake model, there."""
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    command = ["sh", "-c", f"exec {' '.join(PROGRAM)} {arguments}"]
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True)
