"""Compiles the CUDA operators as host code (emulation/cuda_runtime.h) and loads them."""

import ctypes
import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_HERE = Path(__file__).parent / "emulation"
_SOURCES = Path(__file__).parents[2] / "csrc"
_NAMESPACE = "molspec_emulation"


@dataclass(frozen=True)
class Emulator:
    """The operators, and the settings of the emulated machine."""

    ops: Any
    library: ctypes.CDLL

    def set(self, seed: int, skipped_barrier: int = -1, multiprocessors: int = 132) -> None:
        """Set the order of threads, a barrier that every block skips, and the multiprocessors: with
        few of them, the wide linear kernels pay for fewer rows.
        """
        self.library.emulation_set(seed, skipped_barrier, multiprocessors)

    def needs_barrier(self, barrier: int, result: Callable[[], list[Tensor]]) -> bool:
        """Whether a result changes in one of four orders of threads if all skip a barrier."""
        self.set(seed=1)
        expected = result()
        for seed in range(4):
            self.set(seed, skipped_barrier=barrier)
            try:
                found = result()
            except RuntimeError:  # a barrier that not every thread reached
                return True
            if not all(map(torch.equal, found, expected)):
                return True
        return False


def build(cache: Path) -> Emulator:
    """Load the emulated library. Compile it only if a source has changed.

    Raises FileNotFoundError if there is no C++ compiler, which building molspec needs too.
    """
    path = cache / f"{_NAMESPACE}_{_fingerprint()}.so"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # only one of parallel test processes compiles
        if not path.exists():
            partial = path.with_suffix(f".{os.getpid()}")
            subprocess.run(_command(partial), check=True)
            partial.replace(path)
    torch.ops.load_library(str(path))
    return Emulator(getattr(torch.ops, _NAMESPACE), ctypes.CDLL(str(path)))


def _fingerprint() -> str:
    digest = hashlib.sha256(torch.__version__.encode())
    for folder in (
        _HERE,
        *(_SOURCES / name for name in ("common", "cuda", "drafting", "ops", "rules", "text")),
    ):
        for file in sorted(folder.rglob("*.*")):
            digest.update(file.read_bytes())
    digest.update((_SOURCES / "library.cpp").read_bytes())
    digest.update(" ".join(_command(Path())).encode())
    return digest.hexdigest()[:16]


def _command(output: Path) -> list[str]:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise FileNotFoundError("no C++ compiler: expected c++ or g++, or its name in CXX")
    torch_folder = Path(torch.__file__).parent
    return [
        *compiler.split(),
        *("-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off"),
        *("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-U_FORTIFY_SOURCE"),
        *(f"-Dmolspec={_NAMESPACE}", "-DTORCH_TARGET_VERSION=0x020b000000000000"),
        *(f"-I{_HERE}", f"-I{_SOURCES}", f"-isystem{torch_folder / 'include'}"),
        str(_HERE / "library.cpp"),
        *("-o", str(output), f"-L{torch_folder / 'lib'}", "-ltorch_cpu", "-lc10"),
    ]
