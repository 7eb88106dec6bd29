"""Searches and drafters beside each other, a table a run; rows answer the same queries in turns.

    python bench/campaigns/searches.py drafters product=uspto_mit/test.tsv.xz \
        retro=uspto50k/test.tsv.xz --timed 10 --rounds 3 --dtypes float32 bfloat16

drafters  greedy decoding by each drafter: all give the same answers
beams     standard, exact and SBS at n = 5, 10 and 25, and how many lists are standard's, to the bit
papers    the tables of Andronov et al. (J. Cheminform. 2025), their figures beside ours

One thread, batch 1 unless a row says otherwise. Counts are means over all queries and do not depend
on the machine. Times are of the first --timed queries; a query's median round counts. Prints
Markdown.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

import machine
from molspec import PredictOptions, load
from molspec.common.task import Task
from molspec.drafting import Drafting, NoDraft, TreeDraft, WindowDrafts
from molspec.prediction.strategy import lookahead
from rows import TIMES, Column, Measured, Row, cost, measured, pairs_of, table


class Part(NamedTuple):
    """The rows of one table, by name, and its columns."""

    options: Mapping[str, PredictOptions]
    columns: Mapping[str, Column]


COSTS = {
    "decoder calls a query": cost("decoder_calls_per_query", ".1f"),
    "nodes a call": cost("nodes_per_call", ".1f"),
    "accepted of emitted tokens": cost("accepted_per_emitted", ".1%"),
}
DRAFTERS: dict[str, Drafting] = {
    "none": NoDraft(),
    "windows 10x10": WindowDrafts(draft_count=10, draft_length=10),
    "windows 23x17": WindowDrafts(draft_count=23, draft_length=17),
    "tree 5": TreeDraft(node_budget=5),
    "tree 16": TreeDraft(node_budget=16),
    "tree 32": TreeDraft(node_budget=32),
}
_SIZES = (5, 10, 25)


def greedy(drafter: Any, batch_size: int = 1) -> PredictOptions:
    return PredictOptions(drafter=drafter, batch_size=batch_size)


def drafters(_: Task | None) -> Iterator[Part]:
    """The costs of each drafter."""
    accepted = {"accepted of drafted tokens": cost("accepted_per_drafted", ".1%")}
    yield Part({name: greedy(each) for name, each in DRAFTERS.items()}, COSTS | accepted | TIMES)


# ------------------------------------------------------------------------------------------ beams


def _equal(ranks: int | None) -> Column:
    """The share of lists whose first `ranks` answers are those of the first row, to the bit."""

    def cell(one: Measured, first: Measured) -> str:
        pairs = zip(one.records, first.records, strict=True)
        same = [a.predictions[:ranks] == b.predictions[:ranks] for a, b in pairs]
        return f"{sum(same) / len(same):.1%}"

    return cell


def beams(_: Task | None) -> Iterator[Part]:
    """Beam searches; exact drafts even where it does not pay. SBS with drafts is approximate."""
    for n in _SIZES:
        options = PredictOptions(n_best=n, batch_size=1)
        yield Part(
            {
                f"standard, n = {n}": replace(options, beam="standard"),
                "exact": replace(options, beam="exact", drafter=lookahead(n)),
                "SBS": replace(options, beam="sbs", drafter=WindowDrafts(10, 10)),
                "SBS, D = 0": replace(options, beam="sbs", drafter="none"),
            },
            {
                "lists as standard's": _equal(None),
                "first answers as standard's": _equal(1),
                "passes a query": COSTS["decoder calls a query"],
                "nodes a query": cost("nodes_per_query", ".0f"),
                **TIMES,
            },
        )


# ------------------------------------------------------------------------------------ their tables


@dataclass(frozen=True)
class Published:
    """Their figures of a search.

    minutes: for all queries, on an H100. calls, acceptance: of a query, means of 500 queries in
    the grid search for draft length and count. accuracy: by the rank.
    """

    minutes: float | None = None
    calls: float | None = None
    acceptance: float | None = None
    accuracy: Mapping[int, float] = field(default_factory=dict)


#: Numbers of queries of the published runs.
PUBLISHED_QUERIES = {"product": 40_000, "retro": 5_007}
Searches = Mapping[str, tuple[PredictOptions, Published]]
# Times published without a draft count are assigned 23, a good one of the grid search.
PRODUCT: Searches = {
    "greedy": (greedy("none"), Published(61.8)),
    "windows, D = 4, N = 23": (greedy(WindowDrafts(4, 23)), Published(26.0)),
    "windows, D = 10, N = 23": (greedy(WindowDrafts(10, 23)), Published(17.06)),
    "windows, D = 7, N = 3": (greedy(WindowDrafts(7, 3)), Published(calls=24.2)),
    "windows, D = 17, N = 23": (greedy(WindowDrafts(17, 23)), Published(calls=9.3)),
    "windows, D = 20, N = 30": (greedy(WindowDrafts(20, 30)), Published(calls=8.2)),
    "tree": (greedy("tree"), Published()),
    "greedy, batch 32": (greedy("none", 32), Published(4.13)),
    "tree, batch 32": (greedy("tree", 32), Published()),
    "exact, n = 5": (
        PredictOptions(n_best=5),
        Published(accuracy={1: 0.884, 2: 0.925, 3: 0.937, 5: 0.947}),
    ),
}
#: Minutes by n: beam search, SBS with D = 10, SBS with D = 0.
RETRO_MINUTES = {5: (36.7, 9.9, 23.1), 10: (39.9, 15.4, 25.7), 25: (46.2, 28.1, 34.6)}
RETRO_ACCURACY = {1: 0.5207, 3: 0.7516, 5: 0.8207, 10: 0.8908, 25: 0.9407}


def retro(n: int) -> Searches:
    """The searches at n answers a query. The published grid search chose 10 x 10."""
    beam, sbs, sbs_without = RETRO_MINUTES[n]
    grid_search = (20.5, 0.765) if n == 10 else ()
    options = PredictOptions(n_best=n, batch_size=1)
    windows = replace(options, beam="sbs", drafter=WindowDrafts(10, 10))
    without = replace(options, beam="sbs", drafter="none")
    accuracy = {rank: share for rank, share in RETRO_ACCURACY.items() if rank <= n}
    standard = Published(beam, accuracy=accuracy)
    return {
        f"standard, n = {n}": (replace(options, beam="standard"), standard),
        f"SBS, D = 10, N = 10, n = {n}": (windows, Published(sbs, *grid_search)),
        f"SBS, D = 0, n = {n}": (without, Published(sbs_without)),
        f"exact, n = {n}": (replace(options, beam="exact"), Published()),
    }


def _theirs(
    searches: Searches, told: Callable[[Published, Published], float | None], form: str
) -> Column:
    """A published figure, told by those of its row and of the first; empty if there is none."""

    def cell(one: Measured, first: Measured) -> str:
        value = told(searches[one.row.name][1], searches[first.row.name][1])
        return "" if value is None else format(value, form)

    return cell


def _published_accuracy(rank: int, own: Published, _: Published) -> float | None:
    return own.accuracy.get(rank)


def _accuracy(rank: int) -> Column:
    return lambda one, _: f"{one.summary.accuracy(rank) or 0.0:.2%}"


def papers(task: Task | None) -> Iterator[Part]:
    """Time, calls, acceptance and accuracy. Only speed-ups compare: models and machines differ."""
    assert task is not None

    def milliseconds(own: Published, _: Published) -> float | None:
        return None if own.minutes is None else 60e3 * own.minutes / PUBLISHED_QUERIES[task]

    def speed_up(own: Published, first: Published) -> float | None:
        return first.minutes / own.minutes if first.minutes and own.minutes else None

    for searches in [PRODUCT] if task == "product" else map(retro, _SIZES):
        theirs = partial(_theirs, searches)
        ranks = {rank for _, published in searches.values() for rank in published.accuracy}
        columns = {
            "ms a query, theirs": theirs(milliseconds, ".1f"),
            "their speed-up": theirs(speed_up, ".2f"),
            "ms a query, ours": TIMES["ms a query"],
            "our speed-up": TIMES["speed-up"],
            "calls a query, theirs": theirs(lambda own, _: own.calls, ".1f"),
            "calls a query, ours": COSTS["decoder calls a query"],
            "accepted of emitted tokens, theirs": theirs(lambda own, _: own.acceptance, ".1%"),
            "accepted of emitted tokens, ours": COSTS["accepted of emitted tokens"],
        }
        for rank in sorted(ranks):
            columns[f"top-{rank}, theirs"] = theirs(partial(_published_accuracy, rank), ".2%")
            columns[f"top-{rank}, ours"] = _accuracy(rank)
        yield Part({name: options for name, (options, _) in searches.items()}, columns)


PARTS: dict[str, Callable[[Task | None], Iterator[Part]]] = {
    "drafters": drafters,
    "beams": beams,
    "papers": papers,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", choices=PARTS)
    parser.add_argument("sets", metavar="MODEL=FILE", nargs="+")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", nargs="+", default=["float32"])
    parser.add_argument("--limit", type=int, help="queries of a set; all if not given")
    parser.add_argument("--timed", type=int, help="queries that are timed; all if not given")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--max-length", type=int)
    flags = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(f"One thread, {flags.device}, in turns, {flags.rounds} rounds: {machine.described()}.")
    for name, _, path in (text.partition("=") for text in flags.sets):
        for dtype in flags.dtypes:
            model = load(name, flags.device, dtype)
            pairs = pairs_of(Path(path), model.task, flags.limit)
            weights = model.identity.weights[:8]
            print(f"\n## {Path(name).name}, {dtype}\n\n{len(pairs)} queries; weights {weights}.")
            for part in PARTS[flags.table](model.task):
                rows = [
                    Row(search, model, replace(options, max_length=flags.max_length))
                    for search, options in part.options.items()
                ]
                found = measured(rows, pairs, flags.rounds, flags.timed)
                print("", *table("search", found, part.columns), sep="\n", flush=True)


if __name__ == "__main__":
    main()
