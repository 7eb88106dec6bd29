"""Builds the shim, runs Python with it, and arms it."""

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
    """The faults, with the numbers of shim.cpp."""

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
    """Runs `python -m tests.faults ...` in a process with the shim."""
    library = build(Path(mkdtemp()))
    environment = {**os.environ, "LD_PRELOAD": str(library), "MOLSPEC_FAULTS": str(library)}
    command = [sys.executable, "-m", "tests.faults", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@cache
def library() -> ctypes.CDLL:
    """The shim in this process, which `run` started."""
    return ctypes.CDLL(os.environ["MOLSPEC_FAULTS"])


def arm(folder: Path, fault: Fault, at: int) -> None:
    """Fails the `at`th change of files below `folder`; a full disk fails all later ones too."""
    library().molspec_faults_arm(str(folder).encode(), int(fault), ctypes.c_long(at))


def count() -> int:
    """Number of changes since the shim was armed."""
    read = library().molspec_faults_count
    read.restype = ctypes.c_long
    return int(read())
