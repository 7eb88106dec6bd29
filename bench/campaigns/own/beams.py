"""Passes of exact beams whose lookahead uses drafters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import process_time

from molspec import Results
from molspec.drafting import NoDraft
from molspec.drafting.options import AnyConfiguration, LookAhead
from molspec.prediction.strategy import lookahead
from own.drafters import Workload, rows
from own.known import fewest_passes


def table(workload: Workload, made: Mapping[str, AnyConfiguration], n_best: int) -> Iterator[str]:
    """Standard search, lookahead by the n-gram guess and by each drafter, and the fewest passes.

    Raises ValueError if a search gives another list than standard search.
    """
    ahead = lookahead(n_best)
    searches: dict[str, NoDraft | LookAhead] = {"none": NoDraft(), "n-gram guess": ahead}
    searches |= {name: replace(ahead, drafter=drafter) for name, drafter in made.items()}
    cells = [["lookahead by", "passes a query", "nodes a query", "ms a query"]]
    standard: Results | None = None
    for name, drafter in searches.items():
        begin = process_time()
        results = workload.answers(drafter, 1, n_best=n_best)
        milliseconds = 1e3 * (process_time() - begin) / len(results)
        standard = standard or results
        if results != standard:
            raise ValueError(f"{name} gives other lists than none")
        sums = results.statistics
        values = sums.query_calls / sums.queries, sums.nodes / sums.queries, milliseconds
        cells.append([name, *(f"{value:.1f}" for value in values)])
    assert standard is not None
    fewest = [
        fewest_passes(each.nodes, each.decoder_calls, n_best, ahead.node_budget, ahead.steps)
        for result in standard
        if (each := result.statistics).decoder_calls
    ]
    cells.append(["not fewer than", f"{sum(fewest) / len(fewest):.1f}", "", ""])
    return rows(cells)
