"""`python bench/gpu/calls.py first|second|parts FOLDER [PART...]`: what bench/gpu.sh runs.

Every part is a process with a limit of time, so that an illegal address or an endless loop ends one
part and no other. Checks run side by side; one that fails runs again under memcheck, which names
the kernel and the address of a wrong access. Whatever is timed runs alone. Named parts are repeated
at the begin of the second call: those that failed in the first one. TOOL:PART is a part under ncu
or a tool of compute-sanitizer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).parent
#: With STAND_IN=1 the CUDA operators run as host code, on this many times the limits; SLOWER gives
#: another number.
_SLOWER = 20
_KINDS, _DTYPES = ("engine", "wide", "places"), ("float32", "bfloat16")
_CHECKS = ("dense", *(f"{kind}-{dtype}" for kind in _KINDS for dtype in _DTYPES))
#: Apart: a device gives processes turns of a millisecond or two, and rounds wait for each other.
_SEARCHES = ("greedy-rounds", "beam-rounds", "host-rounds", "ensembles")
#: Seconds of a part, of one under a tool, and of those that need other ones.
_LIMIT, _LIMIT_UNDER_A_TOOL = 45, 100
_LIMITS = {"probe": 30, "laws-bfloat16": 40, "laws-float32": 40, "real": 95, "host": 20,
           "kernels": 30, "times-more": 90, "processes": 60, "synccheck:small": 60}  # fmt: skip
_KERNELS = "regex:linear|attention|propose_tree|extend_beams|log_softmax|verify"
#: For our kernels alone; torch's memory is not cached then.
_SANITIZER = (
    "compute-sanitizer --report-api-errors no --kernel-regex kns=molspec --error-exitcode 1"
)
_NCU = (
    "ncu --profile-from-start off --clock-control none --csv --page raw --launch-count 90 "
    "--section LaunchStats --section WarpStateStats --section SpeedOfLight "
    f"--kernel-name-base function --kernel-name {_KERNELS}"
)


@dataclass
class Step:
    """A command with a limit in seconds of a device; without a command the part of that name."""

    name: str
    limit: float
    command: tuple[str, ...] = ()
    more: dict[str, str] = field(default_factory=dict)  # of the environment
    under: tuple[str, ...] = ()  # a tool that runs the part
    part: str = ""  # if not the name
    needs: str = ""  # a program

    @staticmethod
    def of(name: str, **more: str) -> Step:
        """The step of a part, or of TOOL:PART."""
        tool, _, part = name.rpartition(":")
        if not tool:
            return Step(name, _LIMITS.get(name, _LIMIT), more=more)
        under = tuple((_NCU if tool == "ncu" else f"{_SANITIZER} --tool {tool}").split())
        if tool != "ncu":
            more["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
        limit = _LIMITS.get(name, _LIMIT_UNDER_A_TOOL)
        return Step(name, limit, more=more, under=under, part=part, needs=under[0])


class Call:
    """The parts of a call, their outcomes and the time that is left."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.stand_in = bool(os.environ.get("STAND_IN"))
        self._slower = float(os.environ.get("SLOWER", _SLOWER)) if self.stand_in else 1.0
        self._end = time.monotonic() + seconds * self._slower
        self._folder = folder
        self.logs = folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.failed: list[str] = []
        self.passed: list[str] = []
        self.skipped: list[str] = []
        for name in ("summary.txt", "results.jsonl"):
            (folder / name).write_text("")

    def tell(self, line: str) -> None:
        """Write a line of the summary, at once."""
        print(line, flush=True)
        with (self._folder / "summary.txt").open("a") as summary:
            summary.write(line + "\n")

    def skip(self, name: str, why: str) -> None:
        """Tell that a part is left out."""
        self.skipped.append(name)
        self.tell(f"skip  {name}: {why}")

    def run(self, *steps: Step) -> bool:
        """Run steps side by side; whether all have passed.

        Those whose tool is missing are left out; a stand-in runs their parts alone.
        """
        given, steps = steps, ()
        for step in given:
            if not step.needs or shutil.which(step.needs):
                steps += (step,)
            elif self.stand_in:
                steps += (replace(step, under=()),) if step.under else ()
            else:
                self.skip(step.name, f"no {step.needs} here")
        begin, left = time.monotonic(), self._end - time.monotonic()
        running = []
        for step in steps:
            if left < 5:
                self.skip(step.name, "no time is left")
                continue
            with (self.logs / f"{step.name}.txt").open("w") as log:
                environment = {**os.environ, **step.more}
                process = subprocess.Popen(
                    self._command(step),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
            running.append((step, process, begin + min(step.limit * self._slower, left)))
        if not steps:
            return True
        ended = [self._ended(*each, begin) for each in running]  # all of them, also after a failure
        return all(ended) and bool(ended)

    def _command(self, step: Step) -> Sequence[str]:
        if step.command:
            return step.command
        device = ("--device", "emulation", "--few") if self.stand_in else ()
        lines = ("--lines", str(self._folder / "results.jsonl"))
        part = step.part or step.name
        return (*step.under, sys.executable, str(HERE), part, *lines, *device)

    def _ended(
        self, step: Step, process: subprocess.Popen[bytes], end: float, begin: float
    ) -> bool:
        try:
            status = process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        seconds = f"{time.monotonic() - begin:.0f} s"
        if status == 0:
            self.passed.append(step.name)
            self.tell(f"ok    {step.name} ({seconds})")
            return True
        self.failed.append(step.name)
        why = "stopped: it did not end" if status is None else f"status {status}"
        self.tell(f"FAIL  {step.name} ({why}, {seconds})")
        for line in _reasons((self.logs / f"{step.name}.txt").read_text(errors="replace")):
            self.tell(f"      {line[:400]}")
        return False

    def end(self) -> int:
        """Pack the logs and write the verdict; the exit status."""
        with tarfile.open(self._folder / "logs.tar.gz", "w:gz") as archive:
            archive.add(self.logs, "logs")
        shutil.rmtree(self.logs)
        passed, failed, skipped = map(len, (self.passed, self.failed, self.skipped))
        if self.failed:
            verdict = f"FAILED: {' '.join(self.failed)}"
        elif self.skipped or not self.passed:
            verdict = f"INCOMPLETE, nothing failed; left out: {' '.join(self.skipped)}"
        else:
            verdict = "PASSED"
        self.tell(f"VERDICT: {verdict} ({passed} passed, {failed} failed, {skipped} left out)")
        return 0 if verdict == "PASSED" else 1


def _reasons(log: str) -> list[str]:
    """Rows that are not ok, first wrong elements included; else the end of the log."""
    rows = []
    for line in log.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and not row.get("ok", True):
            rows.append(json.dumps({name: row[name] for name in row if name != "device"}))
    last = [line for line in log.splitlines() if line.strip() and not line.startswith("{")]
    return [*rows[:3], *last[-3:]]


def _checks(names: Sequence[str]) -> list[Step]:
    return [Step.of(name, OMP_NUM_THREADS="1") for name in names]


def parts(call: Call, names: Sequence[str]) -> None:
    """The named parts, one after the other; those that failed again under memcheck."""
    for name in names:
        call.run(Step.of(name))
    call.run(*(Step.of(f"memcheck:{name}") for name in call.failed if ":" not in name))


def first(call: Call, names: Sequence[str]) -> None:
    """Is it right, and how fast is it? Times only of what is right."""
    del names
    import_it = "import torch, molspec; print(torch.__version__, torch.cuda.is_available())"
    machine = f"nvidia-smi; nvcc --version; '{sys.executable}' -c '{import_it}'"
    call.run(Step("machine", 40, ("bash", "-c", machine), needs="nvidia-smi"))
    right = call.run(Step.of("probe"))
    right &= call.run(*_checks(_CHECKS))
    right &= call.run(*_checks(_SEARCHES))
    right &= call.run(*_checks(["modules"]))
    call.run(*(Step.of(f"memcheck:{name}") for name in call.failed))
    right &= call.run(Step.of("laws-bfloat16"))
    for name in ("real", "times", "host", "kernels"):
        if right:
            call.run(Step.of(name))
        else:
            call.skip(name, "a check failed: see above")
    call.run(Step.of("laws-float32"))


def second(call: Call, names: Sequence[str]) -> None:
    """What failed, again; what lies behind the times; larger shapes; sanitizers."""
    parts(call, names)
    call.run(Step.of("ncu:one-round"))
    small = "memcheck:small", "racecheck:small-engine", "racecheck:small-rounds"
    call.run(*map(Step.of, small))  # racecheck would need minutes for both parts together
    call.run(Step.of("times-more"))
    call.run(Step.of("synccheck:small"))


#: The calls, and the seconds of each.
_CALLS = {"first": (first, 240), "second": (second, 290), "parts": (parts, 240)}


def main() -> int:
    """Run a call."""
    parser = argparse.ArgumentParser(prog="bench/gpu.sh", description=__doc__)
    parser.add_argument("call", choices=_CALLS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("part", nargs="*", help="to run, in the second call first")
    arguments = parser.parse_args()
    work, seconds = _CALLS[arguments.call]
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    call = Call(folder, float(os.environ.get("SECONDS_IN_ALL", seconds)))
    work(call, arguments.part)
    return call.end()


if __name__ == "__main__":
    sys.exit(main())
