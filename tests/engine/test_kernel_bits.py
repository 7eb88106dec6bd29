"""Every kernel gives the same bits on x86-64 and on 64-bit ARM: hashes of them, for fixed inputs.

Intel, AMD and ARM processors fuse, round and add alike; a new hash here is a change of what molspec
promises. ARM is emulated where a cross compiler and qemu are installed. The kernel for AMX is tried
with plain code in place of the processor's tiles.
"""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SOURCES = Path(__file__).parents[2] / "csrc"

HASHES = {
    "linear_float32": "a9add0e7898c134a",
    "linear_bfloat16": "dbec53492d5b7d59",
    "linear_int8": "dd81fcd6b0a9526b",
    "silent": "1ee155c9c30dae9d",
    "silent_by_rows": "1",
    "loud": "1828fd4a4c34b3b8",
    "loud_by_rows": "0",
    "layer_norm": "c0883364d24ef5bf",
    "rotate": "c1d4039cc4328b41",
    "store_keys": "c4dd4a7be98406a2",
    "attention": "2e66b4cc3f590f18",
    "log_softmax": "3eebe0bf078b9200",
}

#: The processor's features that the code of a set needs: flags of gcc, without -m.
X86_SETS = {"portable": ("fma",), "avx2": ("avx2", "fma")}
X86_SETS["avx2_vnni"] = (*X86_SETS["avx2"], "avxvnni")
X86_SETS["avx512"] = (*X86_SETS["avx2"], "avx512f", "avx512bw", "avx512vl", "avx512dq")
X86_SETS["avx512_vnni"] = (*X86_SETS["avx512"], "avx512vnni")
X86_SETS["avx512_bf16"] = (*X86_SETS["avx512_vnni"], "avx512bf16")


def _output(
    tmp_path: Path, compiler: str, *arguments: object, emulator: tuple[str, ...] = ()
) -> str:
    """What a program of these sources prints."""
    program = str(tmp_path / "program")
    shared = ("-std=c++17", "-ffp-contract=off", f"-I{SOURCES}", "-o", program)
    command = [*compiler.split(), *shared, *map(str, arguments)]
    subprocess.run(command, check=True, stderr=subprocess.PIPE)
    done = subprocess.run([*emulator, program], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def _hashes(tmp_path: Path, compiler: str, *flags: str, **options: Any) -> dict[str, str]:
    sources = (HERE / "kernel_bits" / "print_hashes.cpp", SOURCES / "cpu" / "kernel_table.cpp")
    names = ("-DMOLSPEC_KERNELS=kernels_tried", '-DMOLSPEC_INSTRUCTION_SET="tried"')
    lines = _output(tmp_path, compiler, "-O2", *names, *flags, *sources, **options).splitlines()
    return dict(line.split() for line in lines)


def _compiler() -> str:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    assert compiler is not None, "no C++ compiler, which building molspec needs too"
    return compiler


def _flags_here(name: str) -> list[str]:
    """Flags of gcc for a set; skips the test where this processor cannot run it."""
    if platform.machine() in {"aarch64", "arm64"}:
        if name != "portable":
            pytest.skip("a set of x86-64")
        return []
    # Linux writes avx512vnni and avxvnni with an underscore.
    features = set(re.sub(r"(avx\d*)_", r"\1", Path("/proc/cpuinfo").read_text()).split())
    if not features.issuperset(X86_SETS[name]):
        pytest.skip(f"the processor lacks {name}, or the fused multiply-add of other code")
    return [f"-m{feature}" for feature in X86_SETS[name]]


@pytest.mark.parametrize("name", X86_SETS)
def test_this_processor_gives_the_bits(name: str, tmp_path: Path) -> None:
    flags = _flags_here(name)
    # Only the portable set of x86 multiplies what is silent too.
    dense = {"silent_by_rows": "0"} if flags and name == "portable" else {}
    assert _hashes(tmp_path, _compiler(), *flags) == HASHES | dense


@pytest.mark.parametrize("flags", [[], ["-march=armv8.2-a+dotprod"]], ids=["portable", "dotprod"])
def test_64_bit_arm_gives_the_bits(flags: list[str], tmp_path: Path) -> None:
    compiler, emulator = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("Debian's g++-aarch64-linux-gnu and qemu-user are not installed")
    assert _hashes(tmp_path, compiler, "-static", *flags, emulator=(emulator,)) == HASHES


def test_tiles_of_amx_give_the_bits_of_other_kernels(tmp_path: Path) -> None:
    assert _output(tmp_path, _compiler(), "-O1", HERE / "tiles" / "compare.cpp") == ""
