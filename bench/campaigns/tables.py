"""The tables of Andronov et al. (J. Cheminform. 2025), theirs beside ours, as Markdown.

python bench/campaigns/tables.py --product-table mit.tsv.xz --retro-table 50k.tsv.xz
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

import machine
from molspec import Model, PredictOptions, load
from molspec.drafting import WindowDrafts
from molspec.evaluation import Pair
from rows import TIMES, Column, Measured, Row, cost, markdown, measured, pairs_of, table

#: Numbers of queries of the published runs, whose times are minutes for all queries.
PUBLISHED_QUERIES = {"product": 40_000, "retro": 5_007}


@dataclass(frozen=True)
class Published:
    """Their figures of a search."""

    #: For all queries, on an H100.
    minutes: float | None = None
    #: A query: means of 500 queries in the grid search for draft length and count.
    calls: float | None = None
    acceptance: float | None = None


def _greedy(drafter: Any, batch_size: int = 1) -> PredictOptions:
    return PredictOptions(drafter=drafter, batch_size=batch_size)


def _windows(length: int, count: int) -> PredictOptions:
    return _greedy(WindowDrafts(draft_length=length, draft_count=count))


Searches = Mapping[str, tuple[PredictOptions, Published]]
# Times published without a draft count are assigned 23, a good one of the grid search.
PRODUCT_GREEDY: Searches = {
    "greedy": (_greedy("none"), Published(61.8)),
    "windows, D = 4, N = 23": (_windows(4, 23), Published(26.0)),
    "windows, D = 10, N = 23": (_windows(10, 23), Published(17.06)),
    "windows, D = 7, N = 3": (_windows(7, 3), Published(calls=24.2)),
    "windows, D = 17, N = 23": (_windows(17, 23), Published(calls=9.3)),
    "windows, D = 20, N = 30": (_windows(20, 30), Published(calls=8.2)),
    "tree": (_greedy("tree"), Published()),
    "greedy, batch 32": (_greedy("none", 32), Published(4.13)),
    "tree, batch 32": (_greedy("tree", 32), Published()),
}
PRODUCT_BEAM: Searches = {"exact, n = 5": (PredictOptions(n_best=5), Published())}
PRODUCT_ACCURACY = {1: 0.884, 2: 0.925, 3: 0.937, 5: 0.947}

#: Minutes by n: beam search, SBS with D = 10, SBS with D = 0.
RETRO_MINUTES = {5: (36.7, 9.9, 23.1), 10: (39.9, 15.4, 25.7), 25: (46.2, 28.1, 34.6)}
RETRO_ACCURACY = {1: 0.5207, 3: 0.7516, 5: 0.8207, 10: 0.8908, 25: 0.9407}


def retro_beams(n: int) -> Searches:
    """The searches at n answers a query, batch 1. The published grid search chose 10 x 10."""
    beam, sbs, sbs_without = RETRO_MINUTES[n]
    grid_search = (20.5, 0.765) if n == 10 else ()
    options = PredictOptions(n_best=n, batch_size=1)
    with_windows = replace(options, beam="sbs", drafter=WindowDrafts(10, 10))
    without = replace(options, beam="sbs", drafter="none")
    return {
        f"standard, n = {n}": (replace(options, beam="standard"), Published(beam)),
        f"SBS, D = 10, N = 10, n = {n}": (with_windows, Published(sbs, *grid_search)),
        f"SBS, D = 0, n = {n}": (without, Published(sbs_without)),
        f"exact, n = {n}": (replace(options, beam="exact"), Published()),
    }


def costs(task: str, searches: Searches, found: Sequence[Measured]) -> Iterator[str]:
    """Time, calls and acceptance; speed-ups are relative to the first search."""
    base = found[0].row.name

    def theirs(told: Callable[[Published], float | None], form: str) -> Column:
        def cell(one: Measured, _: Measured) -> str:
            value = told(searches[one.row.name][1])
            return "" if value is None else format(value, form)

        return cell

    def speed_up(published: Published) -> float | None:
        first = searches[base][1].minutes
        return first / published.minutes if first and published.minutes else None

    def milliseconds(published: Published) -> float | None:
        minutes = published.minutes
        return None if minutes is None else 60e3 * minutes / PUBLISHED_QUERIES[task]

    return table(
        "search",
        found,
        {
            "ms a query, theirs": theirs(milliseconds, ".1f"),
            "their speed-up": theirs(speed_up, ".2f"),
            "ms a query, ours": TIMES["ms a query"],
            "our speed-up": TIMES["speed-up"],
            "calls a query, theirs": theirs(lambda published: published.calls, ".1f"),
            "calls a query, ours": cost("decoder_calls_per_query", ".1f"),
            "accepted of emitted tokens, theirs": theirs(lambda each: each.acceptance, ".1%"),
            "accepted of emitted tokens, ours": cost("accepted_per_emitted", ".1%"),
        },
    )


def accuracies(published: Mapping[int, float], found: Sequence[Measured]) -> Iterator[str]:
    """Top-k accuracy on canonical SMILES."""
    theirs = ["theirs", *(f"{value:.2%}" for value in published.values())]
    ours = (
        [f"ours: {one.row.name}", *(f"{one.summary.accuracy(k) or 0.0:.2%}" for k in published)]
        for one in found
    )
    return markdown(["", *(f"top-{rank}" for rank in published)], [theirs, *ours])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--product-table", type=Path, help="without it, no tables 1 and 2")
    parser.add_argument("--retro-table", type=Path, help="without it, no tables 3 and 4")
    parser.add_argument("--product-model", default="product")
    parser.add_argument("--retro-model", default="retro")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--n", type=int, nargs="+", choices=RETRO_MINUTES, default=[5, 10, 25])
    flags = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print("Theirs: an H100, their models; USPTO-MIT mixed (40,000) and USPTO-50K (5,007).")
    print(f"Ours: {machine.described()}; one thread, {flags.device}, {flags.dtype}, batch 1 unless")
    print(f"named, {flags.limit} queries at most (product: another split), other models.")
    print("Speed-ups compare; milliseconds and accuracies do not.")
    for task, sections in (("product", product_tables), ("retro", retro_tables)):
        if (path := getattr(flags, f"{task}_table")) is None:
            continue
        model = load(getattr(flags, f"{task}_model"), flags.device, flags.dtype)
        pairs = pairs_of(path, model.task, flags.limit)
        print(f"\nWeights of {task}: {model.identity.weights[:8]}.")
        for line in sections(partial(_run, model, pairs), flags.n):
            print(line, flush=True)


def _run(model: Model, pairs: Sequence[Pair], searches: Searches) -> list[Measured]:
    rows = [Row(name, model, options) for name, (options, _) in searches.items()]
    return measured(rows, pairs)


Run = Callable[[Searches], list[Measured]]


def product_tables(run: Run, _: Sequence[int]) -> Iterator[str]:
    """Tables 1 and 2."""
    yield from ("", "## 1. Product prediction: greedy decoding", "")
    yield from costs("product", PRODUCT_GREEDY, run(PRODUCT_GREEDY))
    yield from ("", "They report 79 % of the emitted tokens as accepted drafts.")
    yield from ("", "## 2. Product prediction: accuracy", "")
    yield from accuracies(PRODUCT_ACCURACY, run(PRODUCT_BEAM))


def retro_tables(run: Run, sizes: Sequence[int]) -> Iterator[str]:
    """Tables 3 and 4, for beams of these sizes."""
    yield from ("", "## 3. Retrosynthesis: beam searches")
    for n in sorted(sizes):
        searches = retro_beams(n)
        found = run(searches)
        yield ""
        yield from costs("retro", searches, found)
    reached = {rank: value for rank, value in RETRO_ACCURACY.items() if rank <= n}
    yield from ("", "## 4. Retrosynthesis: accuracy", "")
    yield from accuracies(reached, found)


if __name__ == "__main__":
    main()
