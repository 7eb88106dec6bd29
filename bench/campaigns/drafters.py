"""The costs of each drafter: decoder calls, nodes, acceptance and time, as Markdown.

    python bench/campaigns/drafters.py product=uspto_mit/test.tsv.xz retro=uspto50k/test.tsv.xz \
        --output docs/benchmarks/drafters.md

Counts are means over all queries read; they do not depend on the machine. Times are of the first
--timed queries, one thread, batch 1: in each round every drafter answers all of them, and the
median round counts. Decoding is greedy; all drafters give the same answers.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import torch

import machine
from molspec import Model, load
from molspec.decoding import Statistics
from molspec.drafting import Drafting, NoDraft, TreeDraft, WindowDrafts
from molspec.evaluation import PairTable
from timing import Timing, measure

DRAFTERS: dict[str, Drafting] = {
    "none": NoDraft(),
    "windows 10x10": WindowDrafts(draft_count=10, draft_length=10),
    "windows 23x17": WindowDrafts(draft_count=23, draft_length=17),
    "tree 5": TreeDraft(node_budget=5),
    "tree 16": TreeDraft(node_budget=16),
    "tree 32": TreeDraft(node_budget=32),
}
_HEAD = (
    "| drafter | decoder calls a query | nodes a call | accepted of emitted tokens "
    "| accepted of drafted tokens |"
)


def counts(model: Model, queries: Sequence[str]) -> dict[str, Statistics]:
    """Every drafter's statistics over the queries; they do not depend on the batch size."""
    return {
        name: model.predict(queries, drafter=drafter, batch_size=1).statistics
        for name, drafter in DRAFTERS.items()
    }


def times(model: Model, queries: Sequence[str], rounds: int) -> dict[str, Timing]:
    """Times to answer all queries; the drafters take turns."""
    calls = {
        name: partial(model.predict, queries, drafter=drafter, batch_size=1)
        for name, drafter in DRAFTERS.items()
    }
    return measure(calls, rounds, round_seconds=0)


def table(
    found: Mapping[str, Statistics], taken: Mapping[str, Mapping[str, Timing]], timed: int
) -> Iterator[str]:
    """Rows of Markdown; a column of milliseconds a query for every dtype in `taken`."""
    columns = "".join(f" ms a query, {dtype} | of none |" for dtype in taken)
    yield _HEAD + columns
    yield "|---|" + "---:|" * (4 + 2 * len(taken))
    for name, statistics in found.items():
        cells = [
            name,
            f"{statistics.query_calls / statistics.queries:.1f}",
            f"{statistics.nodes / statistics.query_calls:.1f}",
            f"{statistics.accepted_per_emitted:.1%}",
            f"{statistics.accepted_per_drafted:.1%}",
        ]
        for timings in taken.values():
            seconds = timings[name].seconds
            cells += [
                f"{1e3 * seconds / timed:.1f}",
                f"{seconds / timings['none'].seconds:.2f}",
            ]
        yield f"| {' | '.join(cells)} |"


def section(name: str, path: Path, flags: argparse.Namespace) -> Iterator[str]:
    """One model's heading and table."""
    models = {dtype: load(name, dtype=dtype) for dtype in flags.dtypes}
    first = next(iter(models.values()))
    queries = [pair.query for pair in islice(PairTable(path, task=first.task), flags.limit)]
    timed = queries[: flags.timed]
    found = counts(first, queries)
    taken = {dtype: times(model, timed, flags.rounds) for dtype, model in models.items()}
    answered = next(iter(found.values())).queries
    yield f"## {Path(name).name}"
    yield ""
    scope = f"{answered} queries of {path.parent.name}/{path.name}, times of the first {len(timed)}"
    yield f"{scope}; weights {first.identity.weights[:8]}."
    yield ""
    yield from table(found, taken, len(timed))
    yield ""


def head(command: str, flags: argparse.Namespace) -> Iterator[str]:
    """The heading: what the figures mean, and how they were measured."""
    yield "# What each drafter takes"
    yield ""
    yield "Greedy decoding; the answers are the same, to the bit, whatever drafts. `windows NxD`"
    yield "are N windows of D source tokens (Andronov et al. 2025), merged into a tree; `tree N` is"
    yield "one tree of at most N ranked drafts. A call is a pass of the decoder; its nodes are its"
    yield "rows. Counts do not depend on the machine; of times the ratios to `none` mean more than"
    yield f"the milliseconds: one thread, batch 1, median of {flags.rounds} alternating rounds."
    yield ""
    yield f"Measured by `{command}` on: {machine.described()}."
    yield ""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", metavar="MODEL=FILE", nargs="+")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--limit", type=int, help="queries of a set; all if not given")
    parser.add_argument("--timed", type=int, default=50, help="queries that are timed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="a Markdown file; standard output if not given")
    flags = parser.parse_args(arguments)
    torch.set_num_threads(1)

    sets = [pair.partition("=") for pair in flags.sets]
    lines = list(head(_command(sets, flags), flags))
    for name, _, path in sets:
        lines += section(name, Path(path), flags)
    text = "\n".join(lines)
    if flags.output is None:
        print(text)
    else:
        flags.output.write_text(text)


def _command(sets: Sequence[tuple[str, str, str]], flags: argparse.Namespace) -> str:
    """The command to repeat the measurement, without this machine's folders."""
    words = [f"{Path(name).name}={Path(*Path(path).parts[-2:])}" for name, _, path in sets]
    words += ["--timed", str(flags.timed), "--rounds", str(flags.rounds)]
    words += [] if flags.limit is None else ["--limit", str(flags.limit)]
    return shlex.join(["python", "bench/campaigns/drafters.py", *words])


if __name__ == "__main__":
    main()
