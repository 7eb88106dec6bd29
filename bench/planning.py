"""Route planning with molspec and its peers: same weights, same planner, same limit of time.

    pip install ".[bench,planning]"
    python bench/planning.py n1=n1-targets.txt,n1-stock.txt hard=uspto-190.txt,n1-stock.txt \
        --targets 40 --seconds 1 --journal planning.jsonl --markdown docs/planning.md \
        --svg docs/planning.svg

The planner is Syntheseus' Retro* with its own settings; a search ends with its first route. Every
engine runs in a process of its own, with one thread and the model of peers.py, and all take each
target in turn. Time is processor time of the engine's process, of planner and model together: what
else the machine does counts little. Nothing is kept from one target for the next.

What is done stands in --journal: the same command goes on there, another adds targets, sets and
engines. Without a set, the table and the picture are of what is there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import machine
from molspec.journal import Journal, Kind
from peering.convert import convert
from peering.routes import markdown, picture
from peering.trial import Trial

_WORKER = Path(__file__).parent / "peering" / "searching.py"
#: Engines by default, with a setting each.
ENGINES = (
    "molspec int8",
    "molspec bfloat16",
    "molspec float32",
    "CTranslate2 int8",
    "CTranslate2 float32",
    "ONNX Runtime float32",
    "PyTorch loop float32",
    "transformers float32",
)
_TRIALS = Kind[Trial]("trials", lambda values: Trial(**values), asdict)


@dataclass(frozen=True)
class TargetSet:
    """Targets and what is for sale, of files with a SMILES a line."""

    name: str
    targets: Path
    stock: Path

    @classmethod
    def parse(cls, text: str) -> TargetSet:
        name, _, files = text.partition("=")
        targets, _, stock = files.partition(",")
        if not (name and targets and stock):
            raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=TARGETS,STOCK")
        return cls(name, Path(targets), Path(stock))

    def first(self, count: int) -> list[str]:
        with self.targets.open() as lines:
            return [line.split()[0] for line in islice(lines, count)]


class Searcher:
    """An engine's process, which searches when it is asked to."""

    def __init__(self, folder: Path, engine: str, stock: Path, seconds: float, n_best: int) -> None:
        name, _, setting = engine.rpartition(" ")
        settings = [str(folder), name, setting, str(stock), str(seconds), str(n_best)]
        self.engine = engine
        self._process = subprocess.Popen(
            [sys.executable, str(_WORKER), *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def search(self, target: str) -> dict[str, float | int | None]:
        """What a search took. Raises RuntimeError where the process is dead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(target, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.engine} has ended: what it said stands above")
        found: dict[str, float | int | None] = json.loads(line)
        return found


def run(flags: argparse.Namespace, weights: str, journal: Journal[Trial]) -> Iterator[Trial]:
    """All trials that are not done, each in the journal before it is given."""
    done = {(trial.engine, trial.set, trial.target) for trial in journal.records()}
    with journal.appending() as append:
        for targets in flags.sets:
            with ExitStack() as stack:
                searchers: dict[str, Searcher] = {}
                for turn, target in enumerate(targets.first(flags.targets)):
                    shift = turn % len(flags.engines)
                    for engine in flags.engines[shift:] + flags.engines[:shift]:
                        if (engine, targets.name, target) in done:
                            continue
                        if engine not in searchers:
                            made = Searcher(
                                *(flags.folder, engine, targets.stock, flags.seconds, flags.n_best)
                            )
                            searchers[engine] = stack.enter_context(made)
                        found = searchers[engine].search(target)
                        trial = Trial(engine, targets.name, target, **found)
                        append(trial)
                        yield trial


def main(arguments: Sequence[str] | None = None) -> None:
    flags = parse(arguments)
    weights = convert("retro", flags.folder)
    about = {**machine.describe(), "weights": weights[:8]}
    settings = {"n_best": flags.n_best, "seconds": flags.seconds, **about}
    journal = Journal(flags.journal, settings, _TRIALS)
    for trial in run(flags, weights, journal):
        first = "no route" if trial.first is None else f"{trial.first:.2f} s"
        print(f"{trial.set}, {trial.engine}: {first}, {trial.expansions} expansions", flush=True)
    trials = list(Journal(flags.journal, settings, _TRIALS).records())
    if flags.markdown is not None:
        flags.markdown.write_text(markdown(trials, settings))
    if flags.svg is not None:
        flags.svg.write_text(picture(trials, flags.seconds))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="*", type=TargetSet.parse, metavar="NAME=TARGETS,STOCK")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), metavar="'NAME SETTING'")
    parser.add_argument("--targets", type=int, default=200, help="the first of every set")
    parser.add_argument("--seconds", type=float, default=15.0, help="of a search, at most")
    parser.add_argument("--n-best", type=int, default=10, help="reactions a molecule")
    parser.add_argument("--folder", type=Path, default=Path("build/peers/retro"))
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--svg", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
