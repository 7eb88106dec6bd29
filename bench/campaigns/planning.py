"""Route planning with molspec and its peers: same weights, same planner, same limit of time.

    pip install ".[bench,planning]"
    python bench/campaigns/planning.py n1=n1-targets.txt,n1-stock.txt \
        hard=uspto-190.txt,n1-stock.txt --targets 40 --seconds 1 \
        --journal planning.jsonl --markdown docs/benchmarks/planning.md \
        --svg docs/benchmarks/planning.svg

The planner is Syntheseus' Retro* with its own settings, or, for an engine such as "molspec int8,
0.2 nats", with molspec's value function HeavyAtomCost. A search ends with its first route. Every
engine runs in its own process, with one thread and the model of peers.py. The engines take turns at
each target; targets are in a fixed shuffled order. Time is the processor time of the engine's
process, planner and model together, which other processes affect little. Nothing is cached from one
target for the next. Reactions whose reactants lack atoms of the product are left out for every
engine, unless --any-reaction is given. With them, acetic acid alone could make any molecule.

Results are stored in --journal. The same command resumes there; another one adds targets, sets,
engines or a longer limit, for which only targets without a route are searched again. Without a set,
the table and the picture show the journal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import machine
from molspec.common.journal import Journal, Kind
from molspec.planners.stock import read_stock
from peering.convert import convert
from peering.routes import markdown, picture
from peering.trial import Trial
from processes import JsonProcess

_WORKER = Path(__file__).parent / "peering" / "searching.py"
#: Engines by default, with a setting each.
ENGINES = (
    "molspec int8, 0.2 nats",
    "molspec int8",
    "molspec bfloat16",
    "molspec float32",
    "CTranslate2 int8",
    "CTranslate2 float32",
    "ONNX Runtime float32",
    "PyTorch loop float32",
)
_TRIALS = Kind[Trial]("trials", lambda values: Trial(**values), asdict)


@dataclass(frozen=True)
class TargetSet:
    """Targets and stock: files with a SMILES a line."""

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

    def shuffled(self, count: int) -> list[str]:
        """At most `count` targets; a smaller count gives the first of them."""
        targets = [line.split()[0] for line in self.targets.read_text().splitlines()]
        Random(len(targets)).shuffle(targets)
        return targets[:count]

    def canonical_stock(self, folder: Path) -> Path:
        """A file in the folder with the stock in the canonical SMILES of this RDKit."""
        path = folder / f"{self.name}-stock.txt"
        if not path.exists():
            path.write_text("\n".join(sorted(read_stock(self.stock))))
        return path


def searcher(engine: str, flags: argparse.Namespace) -> JsonProcess:
    """An engine's process, which searches on request."""
    engine, comma, value = engine.partition(", ")
    name, _, setting = engine.rpartition(" ")
    setting += comma + value
    values = (flags.folder, name, setting, flags.n_best, int(flags.any_reaction))
    return JsonProcess(sys.executable, _WORKER, *map(str, values))


def run(flags: argparse.Namespace, journal: Journal[Trial]) -> Iterator[Trial]:
    """Run the remaining trials; each is in the journal before it is yielded."""
    done = {
        (trial.engine, trial.set, trial.target)
        for trial in journal.records()
        if trial.decides(flags.seconds)
    }
    targets = {each: each.shuffled(flags.targets) for each in flags.sets}
    stocks = {each: each.canonical_stock(flags.folder) for each in flags.sets}
    searchers: dict[str, JsonProcess] = {}
    with journal.appending() as append, ExitStack() as stack:
        for turn in range(flags.targets):
            shift = turn % len(flags.engines)
            for each in flags.sets:
                for target in targets[each][turn : turn + 1]:
                    for engine in flags.engines[shift:] + flags.engines[:shift]:
                        if (engine, each.name, target) in done:
                            continue
                        if engine not in searchers:
                            searchers[engine] = stack.enter_context(searcher(engine, flags))
                        request = (str(stocks[each]), flags.seconds, target)
                        found = searchers[engine].request(request)
                        trial = Trial(engine, each.name, target, flags.seconds, **found)
                        append(trial)
                        yield trial


def main(arguments: Sequence[str] | None = None) -> None:
    flags = parse(arguments)
    weights = convert("retro", flags.folder)
    about = machine.describe()
    date = about.pop("date")  # a job may take days
    settings = {"n_best": flags.n_best, "any_reaction": flags.any_reaction, **about}
    settings["weights"] = weights[:8]
    journal = Journal(flags.journal, settings, _TRIALS)
    for trial in run(flags, journal):
        first = "no route" if trial.first is None else f"{trial.first:.2f} s"
        print(f"{trial.set}, {trial.engine}: {first}, {trial.expansions} expansions", flush=True)
    trials = list(Journal(flags.journal, settings, _TRIALS).records())
    if flags.markdown is not None:
        flags.markdown.write_text(markdown(trials, {**settings, "date": date}))
    if flags.svg is not None:
        flags.svg.write_text(picture(trials))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="*", type=TargetSet.parse, metavar="NAME=TARGETS,STOCK")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), metavar="'NAME SETTING'")
    parser.add_argument("--targets", type=int, default=200, help="number in every set")
    parser.add_argument("--seconds", type=float, default=15.0, help="limit of a search")
    parser.add_argument("--n-best", type=int, default=10, help="reactions a molecule")
    parser.add_argument("--any-reaction", action="store_true", help="even if reactants lack atoms")
    parser.add_argument("--folder", type=Path, default=Path("build/peers/retro"))
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--svg", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
