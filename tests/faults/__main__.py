"""Inject faults: `python -m tests.faults JOB[:EVERY] ...`, into all jobs if none is given.

For every change of a file that the job makes: kill it before the change, kill it in the middle of
the write, or let the disk be full from then on. Then run the same command until it succeeds, and
compare the files. Processes are forked from one that has imported all modules. EVERY: take only
every so many-th change.
"""

import argparse
import os
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from molspec.commands import cli
from molspec.prediction.results import Results
from tests import tiny
from tests.faults import shim
from tests.faults.jobs import JOBS, Job
from tests.faults.shim import Fault

_FAULTS = (Fault.KILL, Fault.TORN, Fault.FULL)


def forked(work: Callable[[], object], output_path: Path) -> int:
    """Exit status of a forked process that runs `work`; its output goes to a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about forking with threads: there are none
        child = os.fork()
    if child == 0:
        status = 99
        try:
            stream = os.open(output_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(stream, 1)
            os.dup2(stream, 2)
            work()
            status = 0
        except SystemExit as error:
            status = int(error.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Trial:
    """A job with its inputs, and the files that it writes without faults."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._job, self._inputs, self._log = job, folder / "inputs", folder / "said"
        self._output = folder / "output"
        self._inputs.mkdir()
        job.write_inputs(self._inputs)
        self._reset_output()
        count_path = folder / "count"

        def count() -> None:
            try:
                self._run(Fault.NONE, 0)
            finally:
                count_path.write_text(str(shim.count()))

        self._check_success(count)
        self.changes = int(count_path.read_text())
        assert self.changes, "the shim counted no change of a file"
        self._expected = job.contents(self._output)

    def _reset_output(self) -> None:
        shutil.rmtree(self._output, ignore_errors=True)
        self._output.mkdir()

    def _run(self, fault: Fault, at: int) -> None:
        sys.argv = ["molspec", *self._job.arguments(self._inputs, self._output)]
        shim.arm(self._output, fault, at)
        cli.main()

    def _check_success(self, work: Callable[[], None]) -> None:
        status = forked(work, self._log)
        assert status in (0, 1), f"status {status}: {self._log.read_text()}"

    def inject(self, fault: Fault, at: int) -> None:
        """Injects the fault at a change, and again when the job resumes; then lets the job end."""
        self._reset_output()
        for _ in range(2):
            status = forked(lambda: self._run(fault, at), self._log)
            if fault is Fault.FULL:
                message = self._log.read_text()
                assert status in (0, 1, 2), f"status {status}: {message}"
                assert status != 2 or str(self._output) in message, f"names no file: {message}"
            else:
                assert status in (0, 1, -signal.SIGKILL), self._log.read_text()
            if status in (0, 1):
                break
        else:
            self._check_success(lambda: self._run(Fault.NONE, 0))
        found = self._job.contents(self._output)
        assert found.keys() == self._expected.keys(), found.keys() ^ self._expected.keys()
        for name, content in self._expected.items():
            assert found[name] == content, f"{name} is not the same: {found[name]!r:.2000}"


def starve(every: int) -> int:
    """Refuses memory to the operators at every request: an error, and a correct next answer."""
    folder, model = Path("/nowhere"), tiny.model()

    def answers() -> Results:
        return model.predict(["CCO", "N"], n_best=2, max_length=2)

    expected = answers()
    assert not any(result.error for result in expected)
    for count, at in enumerate(range(1, 1_000_000, every)):
        shim.arm(folder, Fault.MEMORY, at)
        try:
            found = answers()
        except (MemoryError, RuntimeError):
            pass
        else:
            if shim.count() < at:
                assert count, "the shim refused no memory"
                return count
            for result, own in zip(found, expected, strict=True):
                assert result.error or result == own
        finally:
            shim.arm(folder, Fault.NONE, 0)
        assert answers() == expected
    raise AssertionError("it asks for memory without end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="JOB[:EVERY]", help=", ".join((*JOBS, "memory")))
    arguments = parser.parse_args()
    if "MOLSPEC_FAULTS" not in os.environ:  # the shim must be loaded from the beginning
        done = shim.run(sys.argv[1:])
        print(done.stdout, done.stderr, sep="", end="")
        sys.exit(done.returncode)
    torch.set_num_threads(1)
    for job in arguments.jobs or (*JOBS, "memory"):
        name, _, every = job.partition(":")
        if name == "memory":
            print(f"memory: refused {starve(int(every or 1))} times", flush=True)
            continue
        with TemporaryDirectory() as folder:
            trial = Trial(JOBS[name], Path(folder).resolve())
            faults = 0
            for fault in _FAULTS:
                for at in range(1, trial.changes + 1, int(every or 1)):
                    try:
                        trial.inject(fault, at)
                    except AssertionError as error:
                        sys.exit(f"{name}, {fault.name} at {at}: {error}")
                    faults += 1
        print(
            f"{name}: {trial.changes} changes of files, {faults} faults: the same bytes", flush=True
        )


if __name__ == "__main__":
    main()
