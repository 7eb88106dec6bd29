"""The shim: building it, running Python with it, arming it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from enum import IntEnum
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

_SOURCE = Path(__file__).with_name("shim.cpp")


class Fault(IntEnum):
    """As shim.cpp numbers them."""

    NONE = 0
    KILL = 1
    TORN = 2
    FULL = 3
    MEMORY = 4


def build(folder: Path) -> Path:
    """Compile the shim."""
    library = folder / "molspec_faults.so"
    flags = ("-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror")
    command = [os.environ.get("CXX", "g++"), *flags, str(_SOURCE), "-o", str(library), "-ldl"]
    subprocess.run(command, check=True)
    return library


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """`python -m tests.faults ...` in a process that has the shim."""
    library = build(Path(mkdtemp()))
    environment = {**os.environ, "LD_PRELOAD": str(library), "MOLSPEC_FAULTS": str(library)}
    command = [sys.executable, "-m", "tests.faults", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@cache
def library() -> ctypes.CDLL:
    """Of this process, which was started by `run`."""
    return ctypes.CDLL(os.environ["MOLSPEC_FAULTS"])


def arm(folder: Path, fault: Fault, at: int) -> None:
    """Fail at the `at`th change of files below `folder`; of a full disk, from there on."""
    library().molspec_faults_arm(str(folder).encode(), int(fault), ctypes.c_long(at))


def count() -> int:
    """Changes since it was armed."""
    read = library().molspec_faults_count
    read.restype = ctypes.c_long
    return int(read())
