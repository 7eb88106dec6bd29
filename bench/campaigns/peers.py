"""Compare molspec with its peers: same weights, same queries, same threads, outputs compared.

    pip install ".[bench]"
    python bench/campaigns/peers.py product=uspto_mit/test.tsv.xz retro=uspto50k/test.tsv.xz \
        --json peers.json --markdown docs/benchmarks/peers.md --svg docs/benchmarks/peers.svg

Every peer runs in its own process, SMILES in and SMILES out; models are converted once (see
peering/convert.py). All answer the same queries in rounds, in turns; the median round counts.
Records of a scenario replace earlier ones in --json, so scenarios can be measured one by one; table
and picture show all records in that file. A peer that is not installed is left out and named.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median

import machine
from molspec import evaluation
from molspec.common.task import Task
from molspec.text import tokenize
from peering.convert import convert
from peering.engines import SETTINGS
from peering.process import PeerProcess, Reply, first_answer
from peering.report import Origin, Record, markdown, picture
from peering.text import Text

FIRST_ANSWER = "first answer"


@dataclass(frozen=True)
class Scenario:
    """The model and the queries of a scenario.

    length: if given, the queries have targets of about so many tokens. papers: the model has as
    many inner units as the papers' models.
    """

    model: Task
    query_count: int
    batch_size: int = 1
    n_best: int = 1
    length: int | None = None
    papers: bool = False

    @property
    def subject(self) -> str:
        """The model and its shape."""
        return f"{self.model}, papers' shape" if self.papers else self.model


@dataclass(frozen=True)
class Workload:
    """A converted model's folder, and the table of its queries."""

    table: Path
    folder: Path
    origin: Origin


#: Scenarios in the picture.
MAIN = {
    "product greedy, batch 1": Scenario("product", 24),
    "product greedy, batch 32": Scenario("product", 32, batch_size=32),
    "retro n = 5": Scenario("retro", 10, n_best=5),
    "retro n = 10": Scenario("retro", 8, n_best=10),
    "retro n = 25": Scenario("retro", 5, n_best=25),
}
#: Scenarios in the picture, which opens the README.
HEADLINES = ("product greedy, batch 1", "retro n = 10")
#: Scenarios in the tables.
TABLES = {
    **MAIN,
    **{f"{name}, papers' shape": replace(scenario, papers=True) for name, scenario in MAIN.items()},
    "retro n = 10, batch 16": Scenario("retro", 16, batch_size=16, n_best=10),
}
SCENARIOS = {
    **TABLES,
    FIRST_ANSWER: Scenario("product", 1),
    **{
        f"retro greedy, {length} tokens": Scenario("retro", 4, length=length)
        for length in (20, 40, 80, 120, 150)
    },
    **{
        f"product greedy, batch {size}": Scenario("product", max(size, 16), batch_size=size)
        for size in (4, 16, 64, 256)
    },
}
#: The variable of each curve, and the scenario at each of its values.
CURVES = {
    "target length": {n: f"retro greedy, {n} tokens" for n in (20, 40, 80, 120, 150)},
    "batch size": {n: f"product greedy, batch {n}" for n in (1, 4, 16, 32, 64, 256)},
}


def queries(scenario: Scenario, table: Path, folder: Path) -> list[str]:
    """The first queries of the table, or those whose targets are closest to the length.

    Queries with tokens that the vocabulary lacks are left out, because a peer may fail at them.
    """
    text = Text(folder)
    rows = evaluation.PairTable(table, task=scenario.model)
    pairs = [row for row in islice(rows, 2000) if text.knows(row.query)]
    if scenario.length is not None:
        target_length = scenario.length
        pairs.sort(key=lambda pair: abs(len(tokenize(pair.target)) - target_length))
    return [pair.query for pair in pairs[: scenario.query_count]]


def measure(name: str, workload: Workload, threads: int, flags: argparse.Namespace) -> list[Record]:
    """Measure rounds of all peers, in turns."""
    scenario = SCENARIOS[name]
    folder = workload.folder
    selected = queries(scenario, workload.table, folder)
    size = scenario.batch_size
    batches = [selected[i : i + size] for i in range(0, len(selected), size)]
    replies: dict[tuple[str, str], list[Reply]] = {}
    with ExitStack() as stack:
        processes = []
        for peer, setting in _chosen(flags):
            process = PeerProcess(folder, peer, setting, threads)
            stack.enter_context(process)
            try:
                process.answer([selected[:1]], scenario.n_best)
            except RuntimeError as error:
                print(f"left out: {str(error).strip().splitlines()[-1]}", flush=True)
                continue
            processes.append(process)
        for turn in range(flags.rounds):
            for process in processes[turn % len(processes) :] + processes[: turn % len(processes)]:
                reply = process.answer(batches, scenario.n_best)
                replies.setdefault((process.name, process.setting), []).append(reply)
    return _records(name, threads, len(selected), replies, workload.origin)


def measure_first_answer(
    workload: Workload, threads: int, flags: argparse.Namespace
) -> list[Record]:
    """Measure the first answers of fresh processes of all peers, in turns."""
    folder = workload.folder
    (query,) = queries(SCENARIOS[FIRST_ANSWER], workload.table, folder)
    replies: dict[tuple[str, str], list[Reply]] = {}
    missing: set[str] = set()
    for _ in range(flags.rounds):
        for peer, setting in _chosen(flags):
            if peer in missing:
                continue
            try:
                reply = first_answer(folder, peer, setting, threads, query)
            except RuntimeError as error:
                missing.add(peer)
                print(f"left out: {str(error).strip().splitlines()[-1]}", flush=True)
                continue
            replies.setdefault((peer, setting), []).append(reply)
    return _records(FIRST_ANSWER, threads, 1, replies, workload.origin)


def _records(
    name: str, threads: int, count: int, replies: dict[tuple[str, str], list[Reply]], origin: Origin
) -> list[Record]:
    base = replies[("molspec", "float32")][0].answers
    return [
        Record(
            name,
            threads,
            peer,
            setting,
            [reply.seconds / count for reply in rounds],
            count,
            sum(a[:1] == b[:1] for a, b in zip(rounds[0].answers, base, strict=True)),
            sum(a == b for a, b in zip(rounds[0].answers, base, strict=True)),
            rounds[-1].peak_bytes,
            origin,
        )
        for (peer, setting), rounds in replies.items()
    ]


def _chosen(flags: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for peer, settings in SETTINGS.items():
        if peer in flags.peers:
            yield from ((peer, each) for each in settings if each in (flags.settings or settings))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", metavar="NAME=[MODEL=]FILE", nargs="*", help="product and retro")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=TABLES, metavar="NAME")
    parser.add_argument("--peers", nargs="+", choices=SETTINGS, default=tuple(SETTINGS))
    parser.add_argument("--settings", nargs="+", help="settings of the peers; all if not given")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path("build/peers"), help="converted models")
    parser.add_argument("--json", type=Path, required=True, help="file that stores the records")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--svg", type=Path)
    flags = parser.parse_args(arguments)
    if "molspec" not in flags.peers:
        parser.error("--peers: expected molspec among them, the others are compared with it")
    return flags


def main(arguments: Sequence[str] | None = None) -> None:
    flags = parse(arguments)
    workloads: dict[str, Workload] = {}
    for scenario in flags.scenarios if flags.sets else ():
        workload = _workload(SCENARIOS[scenario], flags, workloads)
        if workload is None:
            print(f"left out: {scenario}, as {SCENARIOS[scenario].model}=FILE is not given")
            continue
        for threads in flags.threads:
            if scenario == FIRST_ANSWER:
                found = measure_first_answer(workload, threads, flags)
            else:
                found = measure(scenario, workload, threads, flags)
            _store(flags.json, found)
            for record in found:
                print(
                    f"{scenario}, {threads} threads: {record.peer} {record.setting}: "
                    f"{1e3 * median(record.seconds):.1f} ms a query, "
                    f"first answers {record.same_first} of {record.queries}",
                    flush=True,
                )
    records = _load(flags.json)
    if flags.markdown is not None:
        flags.markdown.write_text(markdown(records, (*TABLES, FIRST_ANSWER), CURVES))
    if flags.svg is not None:
        flags.svg.write_text(picture(records, HEADLINES))


def _workload(
    scenario: Scenario, flags: argparse.Namespace, known: dict[str, Workload]
) -> Workload | None:
    """The scenario's model, converted at its first use; None if its file is not given."""
    for text in flags.sets:
        name, *model, file = text.split("=")
        if name != scenario.model or scenario.subject in known:
            continue
        folder = flags.folder / scenario.subject
        weights = convert(model[0] if model else name, folder, papers=scenario.papers)
        origin = Origin(scenario.subject, weights, Path(file).name, machine.describe())
        known[scenario.subject] = Workload(Path(file), folder, origin)
    return known.get(scenario.subject)


def _load(path: Path) -> list[Record]:
    if not path.exists():
        return []
    return [
        Record(**{**values, "origin": Origin(**values["origin"])})
        for values in json.loads(path.read_text())
    ]


def _store(path: Path, found: Sequence[Record]) -> None:
    new = {(record.scenario, record.threads) for record in found}
    others = [record for record in _load(path) if (record.scenario, record.threads) not in new]
    path.write_text(json.dumps([asdict(record) for record in [*others, *found]], indent=1) + "\n")


if __name__ == "__main__":
    main()
