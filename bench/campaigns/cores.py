"""The gain and cost of two cores: processes against threads, on the same rows, in turns.

    python bench/campaigns/cores.py product=uspto_mit/test.tsv.xz retro=uspto50k/test.tsv.xz

Each run is a separate command `molspec predict` on a file of queries. Rates count the seconds from
the first query to the last result, which the command reports; memory is the proportional set size
of all processes together, sampled. Prints Markdown; exits with status 1 if outputs differ in a
byte.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import machine
from molspec.evaluation import PairTable

#: Numbers of processes, and of threads in each.
SPLITS = ((1, 1), (1, 2), (2, 1))
WORKLOADS = {
    "in batches": ("--n-best", "1"),
    "one query at a time": ("--n-best", "1", "--batch-size", "1"),
    "n = 10": ("--n-best", "10"),
}


@dataclass
class Runs:
    """The runs of one split: seconds of answering and of the whole command, and peak MiB."""

    answering: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    peak: float = 0.0
    output: bytes = b""

    def add(self, command: Sequence[str], output: Path) -> None:
        began = time.perf_counter()
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            while process.poll() is None:
                self.peak = max(self.peak, _memory(process.pid))
                time.sleep(0.1)
            assert process.stderr is not None
            log = process.stderr.read()
        if process.returncode > 1:  # 1: a query was refused
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {log}")
        self.whole.append(time.perf_counter() - began)
        self.answering.append(_seconds(log))
        self.output = output.read_bytes()


def _seconds(log: str) -> float:
    """The seconds of answering in the last line that a job prints, "..., 12.3 s"."""
    (line,) = (line for line in log.splitlines() if "answered" in line)
    words = line.replace(",", " ").split()
    return float(words[[word.rstrip(";") for word in words].index("s") - 1])


def _memory(pid: int) -> float:
    """MiB of a process and its descendants; a page that several share counts once."""
    total = 0.0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) / 1024
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            total += _memory(int(child))
    except OSError:
        pass  # it has just ended
    return total


def measure(model: str, flags: Sequence[str], queries: Path, rounds: int) -> Iterator[str]:
    runs = {split: Runs() for split in SPLITS}
    with TemporaryDirectory() as folder:
        for turn in range(rounds):
            for index in range(len(SPLITS)):
                split = SPLITS[(turn + index) % len(SPLITS)]
                output = Path(folder) / f"{turn}.{index}.csv"
                files = ("-i", str(queries), "-o", str(output))
                shares = ("--processes", str(split[0]), "--threads", str(split[1]))
                command = (sys.executable, "-m", "molspec", "predict", "-m", model)
                runs[split].add((*command, "--dtype", "int8", *flags, *files, *shares), output)
    if len({run.output for run in runs.values()}) > 1:
        raise SystemExit("outputs differ")
    count = len(queries.read_text().splitlines())
    base = runs[1, 1]
    for (processes, threads), run in runs.items():
        yield (
            f"| {processes} | {threads} | {count / median(run.answering):.0f} "
            f"| {median(base.answering) / median(run.answering):.2f}x "
            f"| {median(base.whole) / median(run.whole):.2f}x "
            f"| {run.peak:.0f} | {run.peak / base.peak:.2f}x |"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", metavar="MODEL=FILE", nargs="+")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args(arguments)
    print(machine.described())
    for text in flags.sets:
        model, file = text.split("=")
        rows = islice(PairTable(Path(file), task=model), flags.rows)
        with TemporaryDirectory() as folder:
            queries = Path(folder) / "queries.smi"
            queries.write_text("".join(f"{row.query}\n" for row in rows))
            for name, options in WORKLOADS.items():
                print(f"\n## {model}, {name}, int8, {flags.rows} rows\n")
                print(
                    "| processes | threads | rows a second | rate | rate with the start | MiB | |"
                )
                print("|---:|---:|---:|---:|---:|---:|---:|")
                for line in measure(model, options, queries, flags.rounds):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
