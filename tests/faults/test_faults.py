"""Some faults of each kind; `nox -s faults` makes every one."""

from __future__ import annotations

import platform
import shutil
import sys

import pytest

from tests.faults import shim
from tests.faults.jobs import JOBS

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux")
    or platform.libc_ver()[0] != "glibc"
    or shutil.which("g++") is None,
    reason="the shim is for glibc and takes a compiler",
)

#: Only every so many-th change: a prime, so that other ones of each step are taken.
EVERY = {
    "evaluate": 5,
    "predict": 23,
    "predict in parts": 37,
    "score": 13,
    "prepare": 14,
    "plan": 7,
    "predict-parquet": 5,
    "train": 149,
    "memory": 1,
}


@pytest.mark.parametrize("job", [job for job in EVERY if job in (*JOBS, "memory")])
def test_what_was_stopped_goes_on_to_the_same_bytes(job: str) -> None:
    done = shim.run([job, "--every", str(EVERY[job])])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{job}: ")
