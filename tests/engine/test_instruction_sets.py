"""Kernels of every instruction set that this processor has, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from molspec import ops
from tests import reference
from tests.engine.models import CONVENTIONS
from tests.engine.test_engine_ops import batch_of

SETS = ("portable", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16")
#: Forks for each set: the kernels are chosen when the first is needed.
SCRIPT = """
import os, sys, torch
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
"""
TOLERANCES = {torch.float32: (2e-5, 1e-5), torch.bfloat16: (0.06, 0.02), torch.int8: (0.1, 0.0)}
Steps = dict[tuple[str, torch.dtype], torch.Tensor]


def steps() -> Steps:
    """Log-probs of a ragged batch by every convention and type."""
    return {
        (convention, dtype): batch_of(convention, "ragged", dtype).run(ops)
        for convention in CONVENTIONS
        for dtype in TOLERANCES
    }


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MOLSPEC_INSTRUCTION_SET": name}
    return subprocess.run(
        [sys.executable, "-c", *arguments], env=environment, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Steps]:
    """What each set gives that the processor has."""
    folder = tmp_path_factory.mktemp("sets")
    done = run("portable", SCRIPT, str(folder))
    assert done.returncode == 0, done.stderr
    found = {name: folder / name for name in SETS if (folder / name).exists()}
    for name in {*SETS} - {*found}:
        assert f"MOLSPEC_INSTRUCTION_SET is '{name}'" in done.stdout
    return {name: torch.load(path, weights_only=False) for name, path in found.items()}


def test_every_set_equals_reference(found: dict[str, Steps]) -> None:
    assert "portable" in found
    for convention in CONVENTIONS:
        for dtype, (atol, rtol) in TOLERANCES.items():
            batch = batch_of(convention, "ragged", dtype)
            expected = batch.run(reference)
            for of in found.values():
                torch.testing.assert_close(of[convention, dtype], expected, atol=atol, rtol=rtol)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_every_vector_set_gives_the_same_bits(dtype: torch.dtype, found: dict[str, Steps]) -> None:
    vectors = [of for name, of in found.items() if name not in {"portable", *_unlike(dtype)}]
    for convention in CONVENTIONS:
        for of in vectors:
            assert torch.equal(of[convention, dtype], vectors[0][convention, dtype])


def _unlike(dtype: torch.dtype) -> set[str]:
    """Name sets that may round otherwise: of bfloat16 instructions only Intel's were compared."""
    intel = "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    return {"avx512_bf16"} if dtype == torch.bfloat16 and not intel else set()


def test_an_empty_choice_is_none() -> None:
    done = run("", "from molspec import ops; print(ops.instruction_set())")
    assert done.stdout.strip() in SETS, done.stderr
