"""Small models as drafters, and diversity of samples: the tables of docs/benchmarks/sampling.md.

    python bench/campaigns/sampling.py uspto50k/test.tsv.xz --model retro --small SMALL \
        --smallest SMALLEST

Every drafter answers the same queries in turns. The script checks that the answers of a strict
search are equal to the bit with every drafter. Times are processor time on one thread: medians of
rounds. Prints Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import torch

import machine
from molspec import Model, Results, load
from molspec.drafting import AnyDrafter, ModelDraft
from molspec.evaluation import PairTable
from molspec.text import canonicalise

_HEAD = (
    "| search | drafter | decoder calls a query | accepted of drafted | accepted of emitted "
    "| ms a query | speed-up |"
)


@dataclass(frozen=True)
class Search:
    """A search; `plain` has the options that change for the comparison without drafts.

    strict: drafts must not change answers.
    """

    name: str
    options: dict[str, Any]
    plain: dict[str, Any] = field(default_factory=dict)
    strict: bool = True


SEARCHES = (
    Search("greedy", {}),
    Search("10 samples", {"samples": 10}),
    Search("10 samples by rejection", {"samples": 10, "verification": "rejection"}, strict=False),
    Search("beam of 3", {"n_best": 3}),
    Search("beam of 5", {"n_best": 5}),
    *(
        Search(f"published beam of {n}", {"n_best": n, "beam": "sbs"}, {"beam": "exact"}, False)
        for n in (3, 5)
    ),
)


def drafters_with(small: Any) -> dict[str, AnyDrafter]:
    """The baselines, and a small model or module with the gammas of Leviathan et al. 2023."""
    return {
        "none": "none",
        "tree": "tree",
        "small, gamma 3": ModelDraft(small, gamma=3),
        "small, gamma 7": ModelDraft(small, gamma=7),
        "small, adaptive": ModelDraft(small),
    }


def drafters(small: str, smallest: str | None) -> dict[str, AnyDrafter]:
    found = drafters_with(small)
    found["small with a tree, adaptive"] = ModelDraft(small, drafter="tree")
    if smallest is not None:
        found["smallest, adaptive"] = ModelDraft(smallest)
        found["hierarchy of three, adaptive"] = ModelDraft(small, drafter=ModelDraft(smallest))
    return found


def speed(
    model: Model,
    searches: Sequence[Search],
    drafters: dict[str, AnyDrafter],
    queries: Sequence[str],
    rounds: int,
    batch_size: int,
) -> Iterator[str]:
    """A table of costs: a row for each search and drafter."""
    yield _HEAD
    yield "|---|---|" + "---:|" * 5
    for search in searches:
        seconds: dict[str, list[float]] = {}
        found: dict[str, Results] = {}
        for _ in range(rounds):
            for name, drafter in drafters.items():
                if search.options.get("beam") == "sbs" and name == "tree":
                    continue
                more = search.plain if name == "none" else {}
                options = {**search.options, **more, "drafter": drafter, "batch_size": batch_size}
                begin = process_time()
                found[name] = model.predict(queries, **options)
                seconds.setdefault(name, []).append(process_time() - begin)
                if search.strict and found[name] != found["none"]:
                    raise SystemExit(f"{search.name}: {name} has other answers than none")
        for name, results in found.items():
            statistics = results.statistics
            seconds_of_all = median(seconds[name])
            pairs = zip(seconds["none"], seconds[name], strict=True)
            yield (
                f"| {search.name} | {name} | {statistics.query_calls / len(queries):.1f} "
                f"| {statistics.accepted_per_drafted:.1%} | {statistics.accepted_per_emitted:.1%} "
                f"| {1e3 * seconds_of_all / len(queries):.1f} "
                f"| {median(none / drafted for none, drafted in pairs):.2f} |"
            )


def diversity(
    model: Model, queries: Sequence[str], targets: Sequence[str], counts: Sequence[int]
) -> Iterator[str]:
    """A table of distinct molecules, and how often the recorded one is among them."""
    yield "| answers | how | distinct molecules | recall | decoder calls a query | ms a query |"
    yield "|---:|---|" + "---:|" * 4
    recorded = [canonicalise(target) for target in targets]
    for count in counts:
        ways: dict[str, dict[str, Any]] = {
            "beam": {"n_best": count},
            "with replacement, temperature 1": {"samples": count},
            "with replacement, temperature 1.5": {"samples": count, "temperature": 1.5},
            "without replacement, temperature 1": {"samples": count, "replacement": False},
        }
        for name, options in ways.items():
            begin = process_time()
            results = model.predict(queries, **options)
            seconds = process_time() - begin
            molecules = [{p.canonical for p in r.predictions} - {None} for r in results]
            calls = results.statistics.query_calls / len(queries)
            hits = sum(target in found for target, found in zip(recorded, molecules, strict=True))
            yield (
                f"| {count} | {name} | {sum(map(len, molecules)) / len(queries):.1f} "
                f"| {hits / len(queries):.1%} | {calls:.1f} "
                f"| {1e3 * seconds / len(queries):.0f} |"
            )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Small models as drafters; diversity of samples.")
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--model", default="retro")
    parser.add_argument("--small", required=True, help="a small model of the same vocabulary")
    parser.add_argument("--smallest", help="a model that drafts for the small one")
    parser.add_argument("--searches", nargs="*", default=[search.name for search in SEARCHES])
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--answers", type=int, nargs="*", default=[10, 100])
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    model = load(options.model)
    rows = list(islice(PairTable(options.pairs, None, None, model.task), options.limit))
    queries, targets = [row.query for row in rows], [row.target for row in rows]
    print(f"{machine.described(weights=model.identity.weights[:8])}\n")
    chosen = [search for search in SEARCHES if search.name in options.searches]
    named = drafters(options.small, options.smallest)
    for line in speed(model, chosen, named, queries, options.rounds, options.batch_size):
        print(line, flush=True)
    for line in diversity(model, queries, targets, options.answers) if options.answers else ():
        print(line, flush=True)


if __name__ == "__main__":
    main()
