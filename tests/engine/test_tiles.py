"""The int8 kernel for AMX, with plain code in place of the processor's tiles."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent / "tiles"
SOURCES = Path(__file__).parents[2] / "csrc"


def test_tiles_give_the_bits_of_other_kernels(tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    assert compiler is not None, "no C++ compiler, which building molspec needs too"
    program = tmp_path / "compare"
    flags = ("-std=c++17", "-O1", "-ffp-contract=off", f"-I{SOURCES}")
    source = str(HERE / "compare.cpp")
    subprocess.run([*compiler.split(), *flags, source, "-o", str(program)], check=True)
    done = subprocess.run([str(program)], stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (0, "")
