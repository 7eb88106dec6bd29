"""What a step and a round take on an H200 by count, from machine code and launch shapes.

usage: python bench/gpu/cost.py LIBRARY     molspec_ops_cuda.so, or an object of it
A model, not a measurement: a warp's waits (sass.py), waves of blocks, and a node of a graph. What
it leaves out: contention for memory, and other paths than the usual one. Ends with status 1 where
a step at batch 1 is slower than its budget, or a kernel's loops are others than it knows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import sass

#: Of an H200.
MULTIPROCESSORS, SCHEDULERS, CYCLES_A_MICROSECOND = 132, 4, 1900
#: Microseconds from the end of a kernel of a graph to the first instruction of the next: estimate,
#: bench/gpu/costs.cu measures it.
NODE = 1.0
#: Microseconds that a step at batch 1 may take.
BUDGET = 100.0


@dataclass(frozen=True)
class Model:
    """Sizes that decide a step's shape."""

    d_model: int = 256
    heads: int = 8
    feed_forward: int = 512
    vocab: int = 234
    layers: int = 4


@dataclass(frozen=True)
class Launch:
    """A kernel as a step launches it.

    `turns` are those of `sass.loops`. A number: of the longest loop, the others once, and every
    branch ahead passed by. Where there are many loops and rare branches, that is at most.
    """

    what: str
    kernel: str
    count: int  # in a step
    blocks: int
    warps: int  # of a block
    turns: Sequence[int] | int
    resident: int = 4  # blocks of a multiprocessor


def panels(columns: int) -> int:
    """Panels of 64 columns."""
    return ceil(columns / 64)


def linear(what: str, count: int, rows: int, sizes: tuple[int, int], normed: bool) -> Launch:
    """A linear of bfloat16 weights, sizes = (in, out), by the rule of layers.cu."""
    inner, columns = sizes
    wide = panels(columns) * ceil(rows / 64) >= MULTIPROCESSORS // 2
    steps = ceil(inner / 16 / 8)  # of a chunk
    more = ceil(steps / (2 if normed or wide else 4)) - 1  # batches behind the first
    name = "linear_wide" if wide else "linear_narrow"
    blocks = panels(columns) * (ceil(rows / 64) if wide else 8 * ceil(rows / 16))
    turns = (0, 0, 4, more, 8) if wide else (0, 0, 1, more)
    kernel = f"{name}INS0_13PairedWeightsINS0_8Bfloat16EEELb{int(normed)}E"
    return Launch(what, kernel, count, blocks, 8, turns, 2)


def step(model: Model, rows: int, path: int, memory: int) -> list[Launch]:
    """The kernels of a decoder step of a post-norm model over so many rows and positions."""
    d, layers, tiles = model.d_model, model.layers, ceil(rows / 4)
    heads = rows * ceil(model.heads / 4)

    def attention(what: str, positions: int) -> Launch:
        turns = (ceil(positions / 32),)
        return Launch(what, "attention_kernelILi1E", layers, heads, 4, turns)

    return [
        Launch("read_nodes", "read_nodes", 1, tiles, 4, (1, 1)),
        Launch("embed", "embed_kernel", 1, tiles, 4, (1, 0)),
        linear("query, key, value", layers, rows, (d, 3 * d), True),
        attention("self-attention", path),
        linear("its output", layers, rows, (d, d), False),
        linear("query", layers, rows, (d, d), True),
        attention("cross-attention", memory),
        linear("its output", layers, rows, (d, d), False),
        linear("feed-forward in", layers, rows, (d, model.feed_forward), True),
        linear("feed-forward out", layers, rows, (model.feed_forward, d), False),
        Launch("norm", "norm_kernel", 1, tiles, 4, (0, 0, 1, 0)),
        linear("logits", 1, rows, (d, model.vocab), False),
        Launch("log_softmax", "log_softmax", 1, tiles, 4, (0, 0, 0, 0, 0)),
    ]


def greedy_round(drafts: int) -> list[Launch]:
    """What a round of one query has beside its step: a tree of so many drafts."""
    return [
        Launch("propose_tree", "propose_tree", 1, 1, 1, drafts),
        Launch("stage_nodes", "stage_nodes", 1, 1, 4, 1),
        Launch("verify_nodes", "verify_nodes", 1, 1, 1, 1),
    ]


def microseconds(launch: Launch, kernel: sass.Kernel) -> tuple[float, sass.Passage]:
    """Of one launch, the node around it included."""
    passage = sass.walk(kernel, turns_of(launch, kernel))
    at_once = MULTIPROCESSORS * launch.resident
    waves = ceil(launch.blocks / at_once)
    together = ceil(min(launch.blocks, at_once) / MULTIPROCESSORS)  # blocks of a multiprocessor
    issued = passage.instructions * ceil(together * launch.warps / SCHEDULERS)
    return NODE + waves * max(passage.cycles, issued) / CYCLES_A_MICROSECOND, passage


def kernel_of(kernels: dict[str, sass.Kernel], launch: Launch) -> sass.Kernel:
    """The code of a launch."""
    return next(code for name, code in kernels.items() if launch.kernel in name)


def turns_of(launch: Launch, kernel: sass.Kernel) -> Sequence[int]:
    """Of every loop; raises ValueError where there are others than `turns` knows."""
    loops = sass.loops(kernel)
    if isinstance(launch.turns, int):
        lengths = [loop.address - (loop.target or 0) for loop in loops]
        return [launch.turns if length == max(lengths) else 1 for length in lengths]
    if len(loops) != len(launch.turns):
        raise ValueError(
            f"{launch.kernel} has {len(loops)} loops, expected {len(launch.turns)}: say in "
            "bench/gpu/cost.py how often each of them runs"
        )
    return launch.turns


def report(kernels: dict[str, sass.Kernel], launches: list[Launch]) -> float:
    """Print a line a launch and return their microseconds."""
    total = 0.0
    for launch in launches:
        each, way = microseconds(launch, kernel_of(kernels, launch))
        total += launch.count * each
        print(
            f"  {launch.what:20} {launch.count:2} x {each:5.1f} us  {launch.blocks:5} blocks  "
            f"{way.loads:3} loads, {way.trips:2} trips, {way.most_in_flight:2} in flight, "
            f"{way.barriers} barriers, {way.instructions} instructions"
        )
    return total


def main() -> None:
    """Print the steps of the two bundled models' usual shapes."""
    parser = argparse.ArgumentParser(prog="bench/gpu/cost.py", description=__doc__)
    parser.add_argument("library", type=Path)
    try:
        kernels = sass.kernels(parser.parse_args().library)
    except FileNotFoundError as error:
        print(f"costs on a device were not counted: {error}")
        return
    shapes = (("product, batch 1", 16), ("retro, n = 10", 64), ("retro, n = 10, batch 8", 512))
    first = 0.0
    for what, rows in shapes:
        print(f"{what}: a step of {rows} rows behind 30 tokens, memories of 70")
        total = report(kernels, step(Model(), rows, path=30, memory=70))
        print(f"  the step {total:6.1f} us by count")
        first = first or total
    print("greedy, batch 1: beside the step, at most, of fifteen drafts")
    print(f"  together {report(kernels, greedy_round(15)):6.1f} us by count, at most")
    if first > BUDGET:
        sys.exit(f"a step at batch 1 takes {first:.1f} us by count: expected at most {BUDGET}")


if __name__ == "__main__":
    main()
