"""What a model's learned drafters save, beside the copying tree, as Markdown.

    python bench/learned.py retro/model uspto50k/test.tsv.xz --limit 200 --output learned.md

The model is a folder that `molspec train-drafter` or `train-heads` wrote. Counts are means over the
queries read and depend on no machine. Times are of the processor, one thread: in each round every
drafter answers the first --timed queries in turn, and the median round counts. Answers are those of
greedy decoding, to the bit, but where verification is relaxed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from time import process_time
from typing import Any

import torch

import machine
import molspec.decoding.statistics
from molspec import Model, Results, load
from molspec.drafting import HeadsDraft, NoDraft, SpecDraft, TreeDraft
from molspec.drafting.configurations import AnyDrafter
from molspec.evaluation import PairTable
from molspec.text import canonicalise

_PLACES = (5, 10, 15, 20, 25, 30)
_BETAS, _TAUS = (3, 5), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
_SHARES = (10, 25, 50, 75, 90)
#: Stages by the processor's time: others may use the machine.
molspec.decoding.statistics.perf_counter = process_time  # type: ignore[attr-defined]


def drafters(model: Model, nodes: int) -> dict[str, AnyDrafter]:
    """All there are of the model, by name."""
    made: dict[str, AnyDrafter] = {"none": NoDraft(), f"tree {nodes}": TreeDraft(nodes)}
    if model.drafters.heads is not None:
        made |= {own.name: own for own in (HeadsDraft(nodes), HeadsDraft(nodes, tree=True))}
    if (spec := model.drafters.spec) is not None:
        for k in (k for k in _PLACES if k <= spec.most):
            for own in (SpecDraft(nodes, k=k), SpecDraft(nodes, k=k, tree=True)):
                made[f"{own.name} {k}"] = own
    return made


def answers(
    model: Model, queries: Sequence[str], drafter: AnyDrafter, batch: int, **options: Any
) -> Results:
    """Greedy decoding."""
    return model.predict(queries, drafter=drafter, batch_size=batch, **options)


def times(
    model: Model, queries: Sequence[str], made: Mapping[str, AnyDrafter], batch: int, rounds: int
) -> dict[str, dict[str, float]]:
    """Processor milliseconds a query, all and by stage, in the median of alternating rounds."""
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in made}
    for turn in range(rounds + 1):  # the first warms up
        for name, drafter in made.items():
            begin = process_time()
            stages = answers(model, queries, drafter, batch).statistics.seconds
            seconds = {**stages, "all": process_time() - begin}
            for stage, value in seconds.items() if turn else ():
                taken[name].setdefault(stage, []).append(1e3 * value / len(queries))
    return {
        name: {stage: median(values) for stage, values in stages.items()}
        for name, stages in taken.items()
    }


def by_drafter(model: Model, queries: Sequence[str], flags: argparse.Namespace) -> Iterator[str]:
    """Counts of all drafters, and their times at each batch size."""
    made = drafters(model, flags.nodes)
    taken = {
        batch: times(model, queries[: flags.timed], made, batch, flags.rounds)
        for batch in flags.batches
    }
    columns = "".join(
        f" drafting, verifying ms, batch {batch} | speed-up, batch {batch} |" for batch in taken
    )
    yield "| drafter | tokens an iteration | calls a query | nodes a call |" + columns
    yield "|---|" + "---:|" * (3 + 2 * len(taken))
    for name, drafter in made.items():
        sums = answers(model, queries, drafter, 1).statistics
        cells = [
            name,
            f"{sums.emitted_tokens / sums.query_calls:.2f}",
            f"{sums.query_calls / sums.queries:.2f}",
            f"{sums.nodes / sums.query_calls:.1f}",
        ]
        for found in taken.values():
            mine = found[name]
            cells += [
                f"{mine['draft']:.1f}, {mine['step'] + mine['verify']:.1f}",
                f"{found['none']['all'] / mine['all']:.2f}",
            ]
        yield f"| {' | '.join(cells)} |"


def relaxed(
    model: Model, queries: Sequence[str], targets: Sequence[str], flags: argparse.Namespace
) -> Iterator[str]:
    """Calls and top-1 of relaxed verification by beta and tau, for the drafter alone."""
    wanted = [canonicalise(target) for target in targets]
    yield "| verification | tokens an iteration | calls a query | tolerated tokens | top-1 |"
    yield "|---|" + "---:|" * 4
    grid: list[dict[str, Any]] = [{}]
    grid += [
        {"verification": "relaxed", "beta": beta, "tau": tau} for beta in _BETAS for tau in _TAUS
    ]
    for options in grid:
        results = answers(model, queries, SpecDraft(flags.nodes), 1, **options)
        sums, tolerated, right = results.statistics, 0, 0
        for result, target in zip(results, wanted, strict=True):
            for answer in result.predictions:
                tolerated += answer.tolerated or 0
                right += answer.finished and canonicalise(answer.smiles) == target
        name = f"beta {options['beta']}, tau {options['tau']:.0f}" if options else "strict"
        yield (
            f"| {name} | {sums.emitted_tokens / sums.query_calls:.2f} "
            f"| {sums.query_calls / sums.queries:.2f} | {tolerated / sums.emitted_tokens:.1%} "
            f"| {right / len(queries):.1%} |"
        )


def spread(model: Model, queries: Sequence[str], flags: argparse.Namespace) -> Iterator[str]:
    """Of how many queries one is decoded in so many times fewer calls than a token each."""
    yield "| drafter | " + " | ".join(f"{share} %" for share in _SHARES) + " | most |"
    yield "|---|" + "---:|" * (len(_SHARES) + 1)
    for name, drafter in (
        (f"tree {flags.nodes}", TreeDraft(flags.nodes)),
        ("spec", SpecDraft(flags.nodes)),
        ("tree+spec", SpecDraft(flags.nodes, tree=True)),
    ):
        counts = [result.statistics for result in answers(model, queries, drafter, 1)]
        saved = [each.emitted_tokens / each.decoder_calls for each in counts]
        cuts = quantiles(saved, n=100, method="inclusive")
        cells = [f"{cuts[share - 1]:.1f}" for share in _SHARES] + [f"{max(saved):.1f}"]
        yield f"| {name} | {' | '.join(cells)} |"


def report(flags: argparse.Namespace) -> Iterator[str]:
    """The page."""
    model = load(flags.model)
    pairs = list(islice(PairTable(flags.table, task=model.task), flags.limit))
    queries, targets = [pair.query for pair in pairs], [pair.target for pair in pairs]
    described = ", ".join(f"{name} {value}" for name, value in machine.describe().items())
    yield "# What learned drafters save"
    yield ""
    yield f"{len(queries)} queries of {Path(*flags.table.parts[-2:])}, {flags.nodes} nodes a call,"
    yield f"times of the first {flags.timed}, {flags.rounds} rounds. Machine: {described}."
    yield ""
    yield from by_drafter(model, queries, flags)
    if (spec := model.drafters.spec) is None:
        return
    yield ""
    yield f"The Spec-Drafter adds {spec.megabytes:.1f} MB of weights, in float32, to the model's "
    yield f"{4 * model.parameter_count / 1e6:.1f}."
    yield ""
    yield from relaxed(model, queries, targets, flags)
    yield ""
    yield "Tokens an iteration, by the share of queries that have fewer:"
    yield ""
    yield from spread(model, queries, flags)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a model's folder, with its drafters")
    parser.add_argument("table", type=Path, help="queries and their targets")
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--limit", type=int, help="queries; all where not given")
    parser.add_argument("--timed", type=int, default=20, help="queries that are timed")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="a Markdown file; standard output if not given")
    flags = parser.parse_args(arguments)
    torch.set_num_threads(1)
    text = "\n".join(report(flags)) + "\n"
    if flags.output is None:
        print(text)
    else:
        flags.output.write_text(text)


if __name__ == "__main__":
    main()
