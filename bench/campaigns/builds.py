"""Compare two builds of molspec in one run: the same models, the same queries, in turns.

    python bench/campaigns/builds.py OLD/bin/python NEW/bin/python \
        product=uspto_mit/test.tsv.xz retro=uspto50k/test.tsv.xz

Each build runs in its own process, under the interpreter of its environment, on one thread. The
builds answer each batch one right after the other, on the same core. The build that begins changes
from batch to batch, and the core from round to round, so a disturbance affects both. A ratio is the
new build's processor time over the old one's for the same batch. The median counts; its quartiles
show how reliable it is. If they are far apart, use the ratio of every batch's best rounds, which
other processes disturb least. Both builds run the models of the molspec that runs this script: as
bundled, and with feed-forward layers as wide as the papers'. Prints Markdown; exits with status 1
if an answer or the bits of its log-prob differ, unless --differ is given.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import mean, median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, cast

import machine
from molspec import checkpoints
from molspec.checkpoints.bundled import locate
from molspec.common.task import Task
from molspec.evaluation import PairTable
from processes import JsonProcess
from shapes import PAPERS_UNITS, widened

_WORKER = Path(__file__).with_name("build_worker.py")
DTYPES = ("int8", "bfloat16", "float32")


@dataclass(frozen=True)
class Scenario:
    """The requests of a scenario; every batch is a call of `predict`."""

    model: Task
    batch_count: int
    batch_size: int = 1
    n_best: int = 1


SCENARIOS = {
    "product greedy, batch 1": Scenario("product", 20),
    "product greedy, batch 32": Scenario("product", 2, batch_size=32),
    "retro n = 5": Scenario("retro", 8, n_best=5),
    "retro n = 10": Scenario("retro", 8, n_best=10),
    "retro n = 25": Scenario("retro", 4, n_best=25),
}


class Build(JsonProcess):
    """A build in its own process, which takes the requests of build_worker.py."""

    def __init__(self, python: str) -> None:
        super().__init__(
            python, _WORKER, environment={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        )


@dataclass
class Comparison:
    """Seconds of every batch, round by round, for both builds; and how many answers differ."""

    batch_count: int
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    differ: int = 0

    @property
    def ratios(self) -> list[float]:
        return [new / old for old, new in zip(self.old, self.new, strict=True)]

    def best(self, seconds: Sequence[float]) -> float:
        """The seconds of all batches, each in its best round."""
        return sum(min(seconds[batch :: self.batch_count]) for batch in range(self.batch_count))


def compare(
    builds: Sequence[Build], requests: Sequence[list[str]], rounds: int, **request: Any
) -> Comparison:
    """Run rounds of all batches; the first round warms up and does not count."""
    found = Comparison(len(requests))
    cores = sorted(os.sched_getaffinity(0))
    for turn in range(rounds + 1):
        for build in builds:
            build.move_to(cores[turn % len(cores)])
            build.request({})
        for index, batch in enumerate(requests):
            order = (0, 1) if (turn + index) % 2 == 0 else (1, 0)
            replies = {
                build_index: builds[build_index].request({"queries": batch, **request})
                for build_index in order
            }
            if turn == 0:
                continue
            found.old.append(replies[0]["seconds"])
            found.new.append(replies[1]["seconds"])
            pairs = zip(replies[0]["answers"], replies[1]["answers"], strict=True)
            found.differ += sum(old != new for old, new in pairs)
    return found


HEAD = (
    "| scenario | shape | dtype | old, ms a query | new, ms a query | new / old | quartiles "
    "| of the best rounds | answers that differ |",
    "|---|---|---|---:|---:|---:|---:|---:|---:|",
)


def row(name: str, shape: str, dtype: str, found: Comparison) -> str:
    """A row of the table."""
    size = SCENARIOS[name].batch_size
    low, _, high = quantiles(found.ratios, n=4)
    cells = (
        name,
        shape,
        dtype,
        f"{1e3 * mean(found.old) / size:.2f}",
        f"{1e3 * mean(found.new) / size:.2f}",
        f"{median(found.ratios):.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{found.best(found.new) / found.best(found.old):.3f}",
        f"{found.differ} of {len(found.old) * size}",
    )
    return f"| {' | '.join(cells)} |"


@dataclass(frozen=True)
class Subject:
    """A model in one shape: its folder, and the table of its queries."""

    model: Task
    shape: str
    folder: Path
    table: Path


def subjects(sets: Sequence[str], folder: Path) -> Iterator[Subject]:
    """Write every model in both shapes into the folder."""
    for text in sets:
        name, *model, table = text.split("=")
        checkpoint = checkpoints.read(locate(model[0] if model else name))
        for shape, shaped in (
            ("bundled", checkpoint),
            ("papers'", widened(checkpoint, PAPERS_UNITS)),
        ):
            path = folder / f"{name} {shaped.spec.feed_forward}"
            checkpoints.write(shaped, path)
            yield Subject(cast(Task, name), shape, path, Path(table))


def batches(scenario: Scenario, table: Path) -> list[list[str]]:
    """The first queries of the table, in batches."""
    size = scenario.batch_size
    rows = islice(PairTable(table, task=scenario.model), size * scenario.batch_count)
    queries = [pair.query for pair in rows]
    return [queries[i : i + size] for i in range(0, len(queries), size)]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", help="the interpreter that has the old build")
    parser.add_argument("new", help="the interpreter that has the new build")
    parser.add_argument("sets", metavar="NAME=[MODEL=]FILE", nargs="+", help="product and retro")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--shapes", nargs="+", choices=("bundled", "papers'"), default=["bundled"])
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--differ", action="store_true", help="answers may differ")
    return parser.parse_args(arguments)


def comparisons(
    builds: Sequence[Build], found: Sequence[Subject], flags: argparse.Namespace
) -> Iterator[tuple[str, Comparison]]:
    """Rows of the table, each with its comparison."""
    for name in flags.scenarios:
        scenario = SCENARIOS[name]
        for subject in found:
            if subject.model != scenario.model or subject.shape not in flags.shapes:
                continue
            requests = batches(scenario, subject.table)
            for dtype in flags.dtypes:
                request = {"model": str(subject.folder), "dtype": dtype, "n_best": scenario.n_best}
                comparison = compare(builds, requests, flags.rounds, **request)
                yield row(name, subject.shape, dtype, comparison), comparison


def main(arguments: Sequence[str] | None = None) -> int:
    flags = parse(arguments)
    about = f"One thread, {flags.rounds} rounds in turns; {machine.described()}."
    print(f"{about}\n", *HEAD, sep="\n", flush=True)
    differ = 0
    with TemporaryDirectory() as folder, ExitStack() as stack:
        found = list(subjects(flags.sets, Path(folder)))
        builds = [stack.enter_context(Build(python)) for python in (flags.old, flags.new)]
        for line, comparison in comparisons(builds, found, flags):
            print(line, flush=True)
            differ += comparison.differ
    return 1 if differ and not flags.differ else 0


if __name__ == "__main__":
    sys.exit(main())
