"""Savings of a model's learned drafters, beside the copying tree, as Markdown and as a picture.

    python bench/campaigns/learned.py retro/model uspto50k/test.tsv.xz --output learned.md \
        --svg learned.svg

A model is a folder that `molspec train-drafter` or `train-heads` wrote. The tables are of the first
model; if there are several, one more table compares their Spec-Drafters. Counts are means over the
queries read. They do not depend on the machine, nor on the batch, which is checked. Times are
processor time on one thread, of the first --timed queries: in each round every drafter answers them
in turn, and the median round counts. Answers are those of greedy decoding, to the bit, except with
relaxed verification.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

import machine
from molspec import Model, checkpoints
from molspec.checkpoints import Checkpoint
from molspec.checkpoints.bundled import locate
from molspec.evaluation import PairTable
from own import ablations, beams, memory, published, relaxed
from own.drafters import PLACES, Counts, Workload, compared, counted, rows, with_all_tokens
from own.pictures import picture
from own.times import BEAMS, StageTimes, times
from shapes import widened


def by_drafter(
    found: Mapping[str, Counts], taken: Mapping[int, Mapping[str, StageTimes]]
) -> Iterator[str]:
    """Counts of all drafters, and their times at the smallest and the largest batch."""
    shown = {batch: taken[batch] for batch in sorted({min(taken), max(taken)})}
    head = ["drafter", "tokens an iteration", "theirs", "calls a query", "nodes a call"]
    for batch in shown:
        head += [f"drafting, verifying ms, batch {batch}", "over greedy", "over beams of 5"]
    cells = [[*head, "theirs"]]
    for name, counts in found.items():
        tokens, speed = _published(name)
        row = [
            name,
            f"{counts.tokens_an_iteration:.2f}",
            tokens,
            f"{counts.mean('decoder_calls'):.2f}",
            f"{counts.nodes_a_call:.1f}",
        ]
        for others in shown.values():
            mine = others[name]
            row += [
                f"{mine.drafting:.1f}, {mine.verifying:.1f}",
                f"{others['none'].all / mine.all:.2f}",
                f"{others[BEAMS].all / mine.all:.2f}",
            ]
        cells.append([*row, speed])
    return rows(cells)


def _published(name: str) -> tuple[str, str]:
    if name == "none":
        return "", f"{published.GREEDY}"
    kind, _, k = name.partition(", k = ")
    if kind != "spec" or int(k) not in published.PLACES:
        return "", ""
    tokens, speed = published.PLACES[int(k)]
    return f"{tokens}", f"{speed}"


def report(flags: argparse.Namespace) -> Iterator[str]:
    """Lines of the page; also writes the picture."""
    folders = {_name(folder): _read(folder, flags.feed_forward) for folder in flags.models}
    first = next(iter(folders.values()))
    pairs = list(islice(PairTable(flags.table, task=first.task), flags.limit))
    workload = Workload(Model(first), [pair.query for pair in pairs])
    timed = workload.first(flags.timed)
    made = compared(workload, flags.nodes, flags.places)
    kinds = with_all_tokens(workload.model, flags.nodes)
    bare = replace(first, heads=None, spec_drafter=None)
    described = machine.described(weights=bare.fingerprint()[:8])
    yield "# What learned drafters save"
    yield ""
    yield f"{len(pairs)} queries of {Path(*flags.table.parts[-2:])}, {flags.nodes} nodes a call"
    yield f"after the last token; times of the first {flags.timed}, {flags.rounds} rounds, feed-"
    yield f"forward {first.spec.feed_forward}. Theirs: Xia et al. 2023. Machine: {described}."
    yield ""
    found = counted(workload, made, min(flags.timed, 32))
    taken = {batch: times(timed, made, batch, flags.rounds) for batch in flags.batches}
    yield from by_drafter(found, taken)
    if flags.svg is not None:
        shown = ["none", *kinds, "knows the answer"]
        title = f"{first.task}, {len(pairs)} queries"
        flags.svg.write_text(picture(title, taken, found, shown))
    yield from ("", "## Megabytes, by batch size", "")
    yield from memory.table(timed, {"none": made["none"], **kinds}, flags.batches)
    if flags.beams:
        yield from ("", f"## Exact beams of 10, {flags.beams} queries, batch 1", "")
        yield from beams.table(workload.first(flags.beams), kinds, 10)
    if flags.relaxed and first.spec_drafter is not None:
        yield from ("", f"## Relaxed verification, {flags.relaxed} queries", "")
        targets = [pair.target for pair in pairs[: flags.relaxed]]
        yield from relaxed.table(workload.first(flags.relaxed), targets, flags.nodes)
    if len(folders) > 1:
        yield from ("", "## Spec-Drafters", "")
        yield from ablations.table(
            folders, workload.queries, flags.nodes, flags.timed, flags.rounds
        )


def _name(folder: str) -> str:
    """The folder's name; if that is "model", its parent's."""
    path = Path(folder)
    return path.parent.name if path.name == "model" else path.name


def _read(folder: str, feed_forward: int | None) -> Checkpoint:
    checkpoint = checkpoints.read(locate(folder))
    return checkpoint if feed_forward is None else widened(checkpoint, feed_forward)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a folder with its drafters")
    parser.add_argument("table", type=Path, help="queries and their targets")
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--limit", type=int, help="queries; all if not given")
    parser.add_argument("--timed", type=int, default=64, help="queries that are timed")
    parser.add_argument(
        "--places", type=int, nargs="*", default=PLACES, help="tokens drafted, below the maximum"
    )
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beams", type=int, default=200, help="queries of exact beams")
    parser.add_argument("--relaxed", type=int, default=300, help="queries of relaxed verification")
    parser.add_argument("--feed-forward", type=int, help="widen the model; 2048 is the papers'")
    parser.add_argument("--output", type=Path, help="a Markdown file; standard output if not given")
    parser.add_argument("--svg", type=Path, help="the picture")
    flags = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with nullcontext(sys.stdout) if flags.output is None else flags.output.open("w") as output:
        for line in report(flags):
            print(line, file=output, flush=True)


if __name__ == "__main__":
    main()
