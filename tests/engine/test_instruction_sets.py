"""Kernels of every instruction set of this processor, each in its own process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.engine.models import CONVENTIONS
from tests.engine.trees import batch_of

SETS = (
    "portable",
    "avx2",
    "avx2_vnni",
    "avx512",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_amx",
    "neon_dotprod",
)
#: Forks for each set, because the kernels are chosen when the first is needed.
SCRIPT = """
import os, sys, torch
from molspec.engine import ops
from tests.engine.test_instruction_sets import SETS, steps
for name in SETS:
    os.environ["MOLSPEC_INSTRUCTION_SET"] = name
    if os.fork() == 0:
        try:
            torch.save(steps(), f"{sys.argv[1]}/{name}")
        except RuntimeError as error:
            print(error)
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.wait()
os.environ["MOLSPEC_INSTRUCTION_SET"] = ""  # is ignored
print(f"chosen {ops.instruction_set()}")
"""
TOLERANCES = {torch.float32: (2e-5, 1e-5), torch.bfloat16: (0.06, 0.02), torch.int8: (0.1, 0.0)}
Steps = dict[tuple[str, torch.dtype], torch.Tensor]


def steps() -> Steps:
    """Log-probs of a ragged batch for every convention and dtype."""
    return {
        (convention, dtype): batch_of(convention, "ragged", dtype).run()
        for convention in CONVENTIONS
        for dtype in TOLERANCES
    }


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MOLSPEC_INSTRUCTION_SET": name}
    return subprocess.run(
        [sys.executable, "-c", *arguments], env=environment, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def steps_by_set(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Steps]:
    """Log-probs by each instruction set of the processor."""
    folder = tmp_path_factory.mktemp("sets")
    done = run("portable", SCRIPT, str(folder))
    assert done.returncode == 0, done.stderr
    paths = {name: folder / name for name in SETS if (folder / name).exists()}
    assert done.stdout.rpartition("chosen ")[2].strip() in paths
    for name in {*SETS} - {*paths}:
        assert f"MOLSPEC_INSTRUCTION_SET is '{name}'" in done.stdout
    return {name: torch.load(path, weights_only=False) for name, path in paths.items()}


def test_every_set_equals_reference(steps_by_set: dict[str, Steps]) -> None:
    assert "portable" in steps_by_set
    for convention in CONVENTIONS:
        for dtype, (atol, rtol) in TOLERANCES.items():
            batch = batch_of(convention, "ragged", dtype)
            expected = batch.expected()[0]
            for log_probs in steps_by_set.values():
                torch.testing.assert_close(
                    log_probs[convention, dtype], expected, atol=atol, rtol=rtol
                )


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_every_vector_set_gives_the_same_bits(
    dtype: torch.dtype, steps_by_set: dict[str, Steps]
) -> None:
    vectors = [
        log_probs
        for name, log_probs in steps_by_set.items()
        if name not in {"portable", *_sets_that_round_differently(dtype)}
    ]
    for convention in CONVENTIONS:
        for log_probs in vectors:
            assert torch.equal(log_probs[convention, dtype], vectors[0][convention, dtype])


def _sets_that_round_differently(dtype: torch.dtype) -> set[str]:
    """Names sets that may round differently: bfloat16 was compared on Intel processors only."""
    intel = "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    return {"avx512_bf16"} if dtype == torch.bfloat16 and not intel else set()


@pytest.mark.skipif(
    "amx_int8" not in Path("/proc/cpuinfo").read_text(), reason="the processor has no AMX"
)
def test_other_kernels_run_where_the_system_refuses_amx() -> None:
    # Linux refuses it to a process with a signal stack that is too small for the tiles.
    script = """
import ctypes
class Stack(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(2048)
stack = Stack(ctypes.addressof(memory), 0, 2048)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
from molspec.commands import description
print(description.installation())
"""
    process = run("", script)
    line = process.stdout.splitlines()[2]
    assert line.endswith(
        "kernels for avx512_vnni, as the system refuses AMX: No space left on device"
    )
    assert "; the system refuses AMX: " in run("avx512_amx", script).stderr
