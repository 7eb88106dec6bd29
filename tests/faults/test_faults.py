"""Injects some faults of each kind; `nox -s faults` injects every one."""

import platform
import shutil
import sys

import pytest

from tests.faults import jobs, shim

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux")
    or platform.libc_ver()[0] != "glibc"
    or shutil.which("g++") is None,
    reason="the shim is for glibc and takes a compiler",
)

#: Only every so many-th change: primes, so that different changes of each step are taken. A
#: dictionary lists the jobs of one process, because its start takes longer than many faults.
EVERY = [
    {"predict": 31, "evaluate": 7, "score": 17, "prepare": 23, "memory": 3},
    {"train": 101, "plan": 13, "predict-parquet": 3},
]


@pytest.mark.parametrize("every", EVERY, ids=" ".join)
def test_interrupted_jobs_resume_to_the_same_bytes(every: dict[str, int]) -> None:
    available = {name: step for name, step in every.items() if name in (*jobs.JOBS, "memory")}
    done = shim.run([f"{name}:{step}" for name, step in available.items()])
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == list(available)
