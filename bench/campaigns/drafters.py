"""The costs of each drafter: decoder calls, nodes, acceptance and time, as Markdown.

    python bench/campaigns/drafters.py product=uspto_mit/test.tsv.xz retro=uspto50k/test.tsv.xz

Counts are means over all queries read; they do not depend on the machine. Times are of the first
--timed queries, one thread, batch 1, in turns; a query's median round counts. Decoding is greedy;
all drafters give the same answers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

import machine
from molspec import PredictOptions, load
from molspec.drafting import Drafting, NoDraft, TreeDraft, WindowDrafts
from rows import TIMES, Row, cost, measured, pairs_of, table

DRAFTERS: dict[str, Drafting] = {
    "none": NoDraft(),
    "windows 10x10": WindowDrafts(draft_count=10, draft_length=10),
    "windows 23x17": WindowDrafts(draft_count=23, draft_length=17),
    "tree 5": TreeDraft(node_budget=5),
    "tree 16": TreeDraft(node_budget=16),
    "tree 32": TreeDraft(node_budget=32),
}
COLUMNS = {
    "decoder calls a query": cost("decoder_calls_per_query", ".1f"),
    "nodes a call": cost("nodes_per_call", ".1f"),
    "accepted of emitted tokens": cost("accepted_per_emitted", ".1%"),
    "accepted of drafted tokens": cost("accepted_per_drafted", ".1%"),
    **TIMES,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", metavar="MODEL=FILE", nargs="+")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--limit", type=int, help="queries of a set; all if not given")
    parser.add_argument("--timed", type=int, default=50, help="queries that are timed")
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(f"Greedy, batch 1, one thread, in turns, {flags.rounds} rounds: {machine.described()}.")
    for name, _, path in (text.partition("=") for text in flags.sets):
        for dtype in flags.dtypes:
            model = load(name, dtype=dtype)
            pairs = pairs_of(Path(path), model.task, flags.limit)
            rows = [
                Row(drafter, model, PredictOptions(drafter=drafting, batch_size=1))
                for drafter, drafting in DRAFTERS.items()
            ]
            weights = model.identity.weights[:8]
            print(f"\n## {Path(name).name}, {dtype}\n\n{len(pairs)} queries; weights {weights}.\n")
            for line in table("drafter", measured(rows, pairs, flags.rounds, flags.timed), COLUMNS):
                print(line, flush=True)


if __name__ == "__main__":
    main()
