"""Standard, exact speculative and speculative beam search (SBS) side by side.

For every n the searches answer query by query in turns, on one thread at batch 1, so that a
disturbance of the machine affects all of them. The script also checks that
- exact gives the list of standard: sequences, log-probabilities to the bit, order;
- SBS without drafts does too;
- no list depends on its batch: batch 1 and --batch-size give the same.
It exits with status 1 if a check fails. Prints Markdown.

    python bench/campaigns/beams.py test.tsv.xz --model retro --limit 200
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter

import torch

import machine
from molspec import Model, Result, load
from molspec.drafting import LookAhead, WindowDrafts
from molspec.evaluation import PairTable
from molspec.prediction.options import PredictOptions
from molspec.prediction.strategy import chosen_drafter, lookahead

#: The search that the others are compared with.
BASE = "standard"


@dataclass(frozen=True)
class Search:
    """A named search; if `is_base_list`, it must give the list of BASE."""

    name: str
    options: PredictOptions
    is_base_list: bool


@dataclass
class Measured:
    """A search's results, and the seconds of each, in the order of the queries."""

    search: Search
    results: list[Result] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def mean(self, name: str) -> float:
        """The mean over the queries of a count in `QueryStatistics`."""
        counts: list[int] = [getattr(result.statistics, name) for result in self.results]
        return sum(counts) / len(counts)

    def equal(self, others: Sequence[Result], ranks: int | None = None) -> int:
        """The number of lists (their first `ranks` answers) that equal `others`' to the bit."""
        return sum(
            mine.predictions[:ranks] == other.predictions[:ranks] and mine.error == other.error
            for mine, other in zip(self.results, others, strict=True)
        )

    def drafts(self) -> str:
        """A short description of the drafts."""
        drafting = chosen_drafter(self.search.options)
        if isinstance(drafting, LookAhead):
            return (
                f"lookahead {drafting.steps}, {drafting.node_budget} nodes, "
                f"p >= {drafting.min_confidence}"
            )
        if isinstance(drafting, WindowDrafts):
            kind = "smart" if drafting.smart else drafting.choice
            return f"{drafting.draft_count} x {drafting.draft_length}, {kind}"
        return "none"


def searches(n: int, flags: argparse.Namespace) -> list[Search]:
    """The searches to compare at n answers a query."""
    options = PredictOptions(n_best=n, max_length=flags.max_length, batch_size=1)
    ahead = lookahead(n, flags.node_budget)
    if flags.max_depth is not None:
        ahead = replace(ahead, steps=flags.max_depth)
    if flags.min_probability is not None:
        ahead = replace(ahead, min_confidence=flags.min_probability)
    windows = WindowDrafts(flags.draft_length, flags.draft_count)
    smart = replace(windows, smart=True)
    compared = [
        Search(BASE, replace(options, beam="standard"), True),
        Search("exact", replace(options, beam="exact", drafter=ahead), True),
        Search("SBS", replace(options, beam="sbs", drafter=windows), False),
        Search("SBS, smart", replace(options, beam="sbs", drafter=smart), False),
        Search("SBS, D = 0", replace(options, beam="sbs", drafter="none"), True),
    ]
    return [search for search in compared if search.name in (BASE, *flags.searches)]


def in_turns(model: Model, compared: Sequence[Search], queries: Sequence[str]) -> list[Measured]:
    """Answer query by query with each search; the search that begins changes every query."""
    measured = [Measured(search) for search in compared]
    streams = [model.predict_stream(queries, search.options) for search in compared]
    for index in range(len(queries)):
        for turn in range(len(compared)):
            position = (index + turn) % len(compared)
            began = perf_counter()
            result = next(streams[position])
            measured[position].seconds.append(perf_counter() - began)
            measured[position].results.append(result)
    return measured


def violations(model: Model, measured: Sequence[Measured], batch_size: int) -> Iterator[str]:
    """A message for every check that failed."""
    base = measured[0].results
    queries = [result.query for result in base]
    for one in measured:
        name = f"n = {one.search.options.n_best}, {one.search.name}"
        if one.search.is_base_list and one.equal(base) < len(base):
            yield f"{name}: {len(base) - one.equal(base)} lists are not those of {BASE}"
        options = replace(one.search.options, batch_size=batch_size)
        batched = list(model.predict_stream(queries, options))
        if one.equal(batched) < len(base):
            yield f"{name}: {len(base) - one.equal(batched)} lists change at batch {batch_size}"


def table(measured: Sequence[Measured]) -> Iterator[str]:
    """Rows of a Markdown table."""
    base = measured[0]
    count = len(base.results)
    for one in measured:
        calls, nodes = one.mean("decoder_calls"), one.mean("nodes")
        seconds = sum(one.seconds) / count
        speed_up = median(b / o for b, o in zip(base.seconds, one.seconds, strict=True))
        cells = (
            str(one.search.options.n_best),
            one.search.name,
            one.drafts(),
            f"{100 * one.equal(base.results) / count:.1f} %",
            f"{100 * one.equal(base.results, 1) / count:.1f} %",
            f"{calls:.1f}",
            f"{base.mean('decoder_calls') / calls:.2f}x",
            f"{nodes:.0f}",
            f"{nodes / calls:.1f}",
            f"{1e3 * seconds:.1f}",
            f"{sum(base.seconds) / count / seconds:.2f}x",
            f"{speed_up:.2f}x",
        )
        yield f"| {' | '.join(cells)} |"


HEAD = (
    "| n | search | drafts | lists as standard's | first answers as standard's "
    "| passes a query | fewer passes | nodes a query | nodes a pass "
    "| ms a query | speed-up | median speed-up of a query |",
    "|" + "---|" * 12,
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path, help="queries, in a column as for `molspec evaluate`")
    parser.add_argument("--query-column")
    parser.add_argument("--target-column")
    parser.add_argument("--model", default="retro")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--n", type=int, nargs="+", default=[5, 10, 25])
    parser.add_argument("--batch-size", type=int, default=8, help="the batch of the check")
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--node-budget", type=int, help="of exact; by default molspec's own")
    parser.add_argument("--max-depth", type=int, help="of exact: steps of its lookahead")
    parser.add_argument("--min-probability", type=float, help="of exact")
    parser.add_argument("--draft-length", type=int, default=10, help="of SBS")
    parser.add_argument("--draft-count", type=int, default=10, help="of SBS")
    parser.add_argument(
        "--searches",
        nargs="+",
        metavar="NAME",
        choices=("exact", "SBS", "SBS, smart", "SBS, D = 0"),
        default=("exact", "SBS", "SBS, D = 0"),
        help="what to compare with standard: %(choices)s",
    )
    parser.add_argument("--json", type=Path, help="file for every query's counts and times")
    return parser.parse_args(arguments)


def _equality_note(flags: argparse.Namespace) -> str:
    names = [search.name for search in searches(flags.n[0], flags) if search.is_base_list]
    equal = f"; {' and '.join(names[1:])} gave the lists of {BASE} to the bit"
    return equal if names[1:] else ""


def main(arguments: Sequence[str] | None = None) -> int:
    flags = parse(arguments)
    torch.set_num_threads(1)
    model = load(flags.model, flags.device, flags.dtype)
    pairs = PairTable(flags.table, flags.query_column, flags.target_column, model.task)
    rows = islice(pairs, flags.offset, flags.offset + flags.limit)
    queries = [row.query for row in rows]
    print(
        f"{flags.model} {model.identity.weights[:8]}, {flags.device}, {flags.dtype}; "
        f"{len(queries)} queries of {flags.table.name}, column {pairs.query_column}, "
        "one thread, batch 1, in turns.\n"
        f"{machine.described()}.\n"
    )
    print(*HEAD, sep="\n", flush=True)
    wrong: list[str] = []
    report = []
    for n in flags.n:
        measured = in_turns(model, searches(n, flags), queries)
        for row in table(measured):
            print(row, flush=True)
        wrong += violations(model, measured, flags.batch_size)
        report += [
            {
                "n": n,
                "search": one.search.name,
                "drafts": one.drafts(),
                "seconds": one.seconds,
                "statistics": [asdict(result.statistics) for result in one.results],
            }
            for one in measured
        ]
    if flags.json is not None:
        flags.json.write_text(json.dumps({"machine": machine.describe(), "searches": report}))
    for line in wrong:
        print(f"\nVIOLATED: {line}")
    if not wrong:
        print(f"\nNo list depends on its batch, 1 or {flags.batch_size}{_equality_note(flags)}.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
