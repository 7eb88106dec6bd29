"""Standard, exact speculative and speculative beam search (SBS) side by side.

For every n the searches answer query by query in turns, on one thread at batch 1. The script also
checks that
- exact gives the list of standard: sequences, log-probabilities to the bit, order;
- SBS without drafts does too;
- no list depends on its batch: batch 1 and --batch-size give the same.
It exits with status 1 if a check fails. Prints Markdown.

    python bench/campaigns/beams.py test.tsv.xz --model retro --limit 200
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

import machine
from molspec import Model, load
from molspec.drafting import WindowDrafts
from molspec.evaluation.record import Record
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import Result
from molspec.prediction.strategy import lookahead
from rows import TIMES, Column, Measured, Row, cost, measured, pairs_of, table

#: Searches that must give the list of the first, standard; SBS with drafts is approximate.
EXACT = ("exact", "SBS, D = 0")


def searches(model: Model, n: int, max_length: int | None = None) -> list[Row]:
    """The searches to compare at n answers a query; exact drafts even where it does not pay."""
    options = PredictOptions(n_best=n, max_length=max_length, batch_size=1)
    windows = WindowDrafts(draft_length=10, draft_count=10)
    return [
        Row("standard", model, replace(options, beam="standard")),
        Row("exact", model, replace(options, beam="exact", drafter=lookahead(n))),
        Row("SBS", model, replace(options, beam="sbs", drafter=windows)),
        Row("SBS, D = 0", model, replace(options, beam="sbs", drafter="none")),
    ]


def equal(
    mine: Sequence[Record | Result], others: Sequence[Record | Result], ranks: int | None = None
) -> int:
    """The number of lists (their first `ranks` answers) that are equal to the bit."""
    return sum(
        one.predictions[:ranks] == other.predictions[:ranks] and one.error == other.error
        for one, other in zip(mine, others, strict=True)
    )


def violations(found: Sequence[Measured], batch_size: int) -> Iterator[str]:
    """A message for every check that failed."""
    base = found[0].records
    for one in found:
        name = f"n = {one.row.options.n_best}, {one.row.name}"
        if one.row.name in EXACT and (wrong := len(base) - equal(one.records, base)):
            yield f"{name}: {wrong} lists are not those of {found[0].row.name}"
        options = replace(one.row.options, batch_size=batch_size)
        batched = list(one.row.model.predict_stream([r.query for r in one.records], options))
        if wrong := len(base) - equal(one.records, batched):
            yield f"{name}: {wrong} lists change at batch {batch_size}"


def _share(ranks: int | None) -> Column:
    return lambda one, first: f"{equal(one.records, first.records, ranks) / len(one.records):.1%}"


def _fewer(one: Measured, first: Measured) -> str:
    return f"{first.cost('decoder_calls_per_query') / one.cost('decoder_calls_per_query'):.2f}x"


COLUMNS: dict[str, Column] = {
    "n": lambda one, _: str(one.row.options.n_best),
    "lists as standard's": _share(None),
    "first answers as standard's": _share(1),
    "passes a query": cost("decoder_calls_per_query", ".1f"),
    "fewer passes": _fewer,
    "nodes a query": cost("nodes_per_query", ".0f"),
    **TIMES,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path, help="queries and targets, as for `molspec evaluate`")
    parser.add_argument("--model", default="retro")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--n", type=int, nargs="+", default=[5, 10, 25])
    parser.add_argument("--batch-size", type=int, default=8, help="the batch of the check")
    parser.add_argument("--max-length", type=int)
    flags = parser.parse_args(arguments)
    torch.set_num_threads(1)
    model = load(flags.model, flags.device, flags.dtype)
    pairs = pairs_of(flags.table, model.task, flags.limit)
    weights = model.identity.weights[:8]
    print(
        f"{flags.model} {weights}, {flags.device}, {flags.dtype}; {len(pairs)} queries, in turns."
    )
    print(f"{machine.described()}.")
    wrong: list[str] = []
    for n in flags.n:
        found = measured(searches(model, n, flags.max_length), pairs)
        print("", *table("search", found, COLUMNS), sep="\n", flush=True)
        wrong += violations(found, flags.batch_size)
    print("", *(f"VIOLATED: {line}" for line in wrong), sep="\n")
    if not wrong:
        print(f"{' and '.join(EXACT)} gave standard's lists to the bit.")
        print(f"No list depends on its batch, 1 or {flags.batch_size}.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
