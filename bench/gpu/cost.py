"""Counts the time of a step and a round on an H200, from machine code and launch shapes.

usage: python bench/gpu/cost.py LIBRARY     molspec_ops_cuda.so, or an object of it
A model, not a measurement: it counts a warp's waits (sass.py), waves of blocks, and the nodes of a
graph. It leaves out contention for memory, and all paths but the usual one. Exits with status 1 if
a step at batch 1 is slower than its budget, or if a kernel has loops that are not listed here.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path

import sass

#: Numbers of an H200.
MULTIPROCESSORS, SCHEDULERS, CYCLES_A_MICROSECOND = 132, 4, 1900
#: Microseconds from the end of a graph's kernel to the first instruction of the next: an estimate,
#: which bench/gpu/costs.cu measures.
NODE = 1.0
#: Microseconds that a step at batch 1 may take.
BUDGET = 100.0


@dataclass(frozen=True)
class Model:
    """Sizes of a model that determine the launches of a step."""

    d_model: int = 256
    heads: int = 8
    feed_forward: int = 512
    vocab: int = 234
    layers: int = 4


@dataclass(frozen=True)
class Launch:
    """A kernel as a step launches it.

    turns: how often each loop of `sass.loops` runs; or the same by the beginning of the source line
    of the loop's last test, with a number for each copy of the loop that the compiler made.
    """

    what: str
    kernel: str
    count: int  # in a step
    blocks: int
    warps: int  # of a block
    turns: Sequence[int] | Mapping[str, Sequence[int]]
    resident: int = 4  # blocks of a multiprocessor


def panels(columns: int) -> int:
    """Panels of 64 columns."""
    return ceil(columns / 64)


def linear(what: str, count: int, rows: int, sizes: tuple[int, int], normed: bool) -> Launch:
    """A linear layer of bfloat16 weights, sizes = (in, out), launched by the rule of layers.cu."""
    inner, columns = sizes
    wide = panels(columns) * ceil(rows / 64) >= MULTIPROCESSORS // 2
    steps = ceil(inner / 16 / 8)  # of a chunk
    more = ceil(steps / (2 if normed or wide else 4)) - 1  # batches after the first
    name = "linear_wide" if wide else "linear_narrow"
    blocks = panels(columns) * (ceil(rows / 64) if wide else 8 * ceil(rows / 16))
    turns = (0, 0, 4, more, 8) if wide else (0, 0, 1, more)
    kernel = f"{name}INS0_13PairedWeightsINS0_8Bfloat16EEELb{int(normed)}E"
    return Launch(what, kernel, count, blocks, 8, turns, 2)


def step(model: Model, rows: int, path: int, memory: int) -> list[Launch]:
    """The kernels of a post-norm model's decoder step, for so many rows and positions."""
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


#: How often each loop usually runs in a warp that proposes tokens, by its line: means of 499 trees
#: for 100 test queries of the product model, whose copy texts have 913 positions.
_GUESS: dict[str, Sequence[int]] = {
    # advancing by a token: three positions may be better
    "for (int32_t end = words": [2],
    "for (int i = 0; i < kMostWords": [2],
    "for (; some != 0": [2],
    "for (; left != 0": [1],
    "for (int32_t base = lane_index(); base < words": [1],
    "for (int32_t begin = lane_index(); begin < count; begin += kTogether": [1],
    # rings are few
    "while (index >= 0 && rings": [0],
    "while (index_of(number": [0],
    "for (int i = index; i + 1 < rings": [0],
    "if (depth <= 0) return": [0],
    "for (int32_t position = 0; position < text.source": [0],
    # a lookup: nine known symbols, twelve listed; loops process four at a time
    "for (int d = 1; d <= longest": [3],
    "if (entry.context == 0": [1],
    "for (int d = depth": [2],
    "for (int i = lane; i < (table.alphabet": [1],
    "for (int begin = 0; begin < total": [1],
    "for (int i = 0; i < added": [3],
    "for (int begin = 0; begin < count": [1],
    "for (int i = lane_index(); i < count": [1],
    "for (int i = 0; i < count": [3],
}
_TREE: dict[str, Sequence[int]] = {
    **_GUESS,
    # in shared memory; then the root, which has advanced by nine tokens, seven of them drafted
    "for (auto i = static_cast<int32_t>(threadIdx.x); i < (bytes + 7) / 8": [1],
    "for (int32_t i = lane_index(); i < matches": [1, 0],
    "for (int32_t i = lane_index(); i < copied": [1, 0],
    "for (int32_t next; absorbed < count": [7],
    "if (next == DraftJob::kNone) break": [7],
    "for (int turn = 1; absorbed < count": [2],
    "for (int32_t i = lane_index(); i < expansion_count()": [0, 1],
    # three turns, each of which follows a copy
    "if (shared.grown) break": [3],
    "if (!__any_sync(~0U, some)) break": [2],  # eight tokens back
    # five nodes join in a turn, and others are needed
    "for (;;) {": [5],
    "if (needs) break": [5],
    "while (next < count &&": [0],
    "for (int32_t i = next + 1": [0],
    "for (int32_t begin = 0; begin < count; begin += kWarp": [1],
    "while ((kept >> newest": [1],
    "for (int job = 0; job < kTreeWarps": [8],
    "for (int job = copies; job < kTreeWarps": [1],
}


def _look_ahead(width: int) -> dict[str, Sequence[int]]:
    """How often each loop runs for a beam with at most one candidate and node for each thread."""
    ranks = ceil(width / 10)  # of a warp
    return {
        **_GUESS,
        "for (int32_t i = lane_index(); i < matches": [0],
        "for (int32_t i = lane_index(); i < copied": [0],
        "for (int32_t block = threadIdx.x": [1],
        "for (int32_t i = threadIdx.x": [1],
        "for (int32_t position = from": [1],  # the step has added a token
        "for (int32_t other = lane_index(); other < rank": [1],
        "for (int32_t rank = warp_index()": [ranks],
        "for (int32_t i = count + lane_index(); i < width": [0],
        "for (int32_t rank = threadIdx.x": [1],
        "while (count > 0 && best.ids": [0],
        "for (int32_t c = threadIdx.x; c < shared.count": [1],
        # the place of a candidate: two of every hypothesis come before it
        "for (int32_t rank = 0; rank < shared.count && place": [width],
        "for (int32_t i = 0; i < shared.candidate_counts": [2],
        "for (int32_t c = 0; equal > 1": [0],
        "for (int32_t rank = 0; rank < shared.count; ++rank) total": [ceil(width / 4), 0],
        "for (int32_t i = 0; i < choice_count": [width],
        "while (child != BeamNode::kNone": [1],
        "for (int32_t begin = 0; begin < trees.block_count()": [1],
        "for (int32_t i = 0; i < count; ++i) {": [width],  # nodes for new hypotheses; and tokens
        "for (int32_t other = 0; other < i": [width],
        "for (int32_t i = warp_index(); i < count": [ranks],
        "for (auto i = static_cast<int32_t>(threadIdx.x); i < (bytes + 7) / 8": [1],
        "if (entry(other).parent == mine.parent) return": [width // 2],
        "for (int32_t rank = 0; rank < shared.choice.count": [width],
        "for (int32_t i = 0; i < problem.lookahead_steps": [12],
    }


#: Lines of code that never runs: it is for a node that no round has.
_NEVER = ("return node < kMostVerified",)
#: Paths of up to eleven nodes, after thirty tokens.
_STAGE: dict[str, Sequence[int]] = {
    "for (int32_t i = threadIdx.x; i < count; i": [1],
    "for (int other = threadIdx.x": [0],
    "for (int64_t node = first +": [1],
    "node += blockDim.x)": [1],
    "for (int32_t n = node; n > 0": [11],
    "for (int32_t node = threadIdx.x; node < count": [1],
    "for (int32_t i = threadIdx.x; i < count * staged": [5],
}
#: Nine tokens emitted, from a tree of fifteen.
_VERIFY: dict[str, Sequence[int]] = {
    "for (int32_t node = warp_index()": [1],
    "for (int64_t begin = lane_index(); begin < size": [1],
    "if (found) return begin": [1],
    "++answer.accepted_tokens": [9],
}


def greedy_round() -> list[Launch]:
    """The kernels of a round of one query besides its step, with fifteen drafts."""
    return [
        Launch("propose_tree", "propose_tree", 1, 1, 8, _TREE, 1),
        Launch("stage_nodes", "stage_nodes", 1, 1, 4, _STAGE),
        Launch("verify_nodes", "verify_nodes", 1, 1, 16, _VERIFY, 1),
    ]


def looking_ahead(width: int) -> list[Launch]:
    """The kernel that looks ahead for an exact beam of one query, over twelve steps."""
    return [Launch("look_ahead", "look_ahead_kernel", 1, 1, 10, _look_ahead(width), 1)]


@dataclass(frozen=True)
class Code:
    """Kernels of a library, and the source lines of their code."""

    kernels: Mapping[str, sass.Kernel]
    lines: Mapping[str, sass.Lines]

    @staticmethod
    def of(library: Path) -> Code:
        """Read a library. Raises FileNotFoundError without cuobjdump or nvdisasm."""
        return Code(sass.kernels(library), sass.lines(library))

    def name_of(self, part: str) -> str:
        """The kernel with `part` in its name. Raises LookupError if there is none."""
        for name in self.kernels:
            if part in name:
                return name
        raise LookupError(
            f"there is no {part} among {len(self.kernels)} kernels: expected a library with "
            "machine code for sm_90a"
        )


def microseconds(launch: Launch, code: Code) -> tuple[float, sass.Passage]:
    """The microseconds of one launch with its graph node, and the warp's passage."""
    name = code.name_of(launch.kernel)
    kernel = code.kernels[name]
    lines = code.lines.get(name, {})
    passage = sass.walk(kernel, turns_of(launch, kernel, lines))
    at_once = MULTIPROCESSORS * launch.resident
    waves = ceil(launch.blocks / at_once)
    together = ceil(min(launch.blocks, at_once) / MULTIPROCESSORS)  # blocks of a multiprocessor
    # In a block of one query one warp works at a time, or all of them do the same work.
    warps = launch.warps if isinstance(launch.turns, Sequence) else 1
    issued = passage.instructions * ceil(together * warps / SCHEDULERS)
    return NODE + waves * max(passage.cycles, issued) / CYCLES_A_MICROSECOND, passage


def turns_of(launch: Launch, kernel: sass.Kernel, lines: sass.Lines) -> Sequence[int]:
    """How often every loop runs. Raises ValueError if `launch.turns` lacks a loop."""
    loops = sass.loops(kernel)
    if isinstance(launch.turns, Sequence):
        if len(loops) != len(launch.turns):
            raise ValueError(
                f"{launch.kernel} has {len(loops)} loops, expected {len(launch.turns)}: say in "
                "bench/gpu/cost.py how often each of them runs"
            )
        return launch.turns
    found = []
    copies: Counter[tuple[tuple[str, int], ...]] = Counter()
    for loop in loops:
        chain = lines.get(loop.address, ())
        texts = [source(*at) for at in chain] or ["code without a line: expected -lineinfo"]
        known = [turns for begins, turns in launch.turns.items() if texts[0].startswith(begins)]
        known += [[0] for begins in _NEVER if any(text.startswith(begins) for text in texts)]
        if not known:
            raise ValueError(
                f"{launch.kernel} has a loop that ends in `{texts[0]}`: say in bench/gpu/cost.py "
                "how often it runs"
            )
        found.append(known[-1][copies[chain] % len(known[-1])])
        copies[chain] += 1
    return found


@cache
def _text(file: str) -> list[str]:
    return Path(file).read_text().splitlines()


def source(file: str, line: int) -> str:
    """A line of a source file, without indentation."""
    return _text(file)[line - 1].strip()


def report(code: Code, launches: list[Launch]) -> float:
    """Print a line for each launch and return the sum of their microseconds."""
    total = 0.0
    for launch in launches:
        each, way = microseconds(launch, code)
        total += launch.count * each
        print(
            f"  {launch.what:20} {launch.count:2} x {each:5.1f} us  {launch.blocks:5} blocks  "
            f"{way.loads:3} loads, {way.trips:2} trips, {way.most_in_flight:2} in flight, "
            f"{way.barriers} barriers, {way.instructions} instructions"
        )
    return total


def main() -> None:
    """Print the costs of steps and rounds in usual shapes of the bundled models."""
    parser = argparse.ArgumentParser(prog="bench/gpu/cost.py", description=__doc__)
    parser.add_argument("library", type=Path)
    try:
        code = Code.of(parser.parse_args().library)
    except FileNotFoundError as error:
        print(f"costs on a device were not counted: {error}")
        return
    shapes = (("product, batch 1", 16), ("retro, n = 10", 64), ("retro, n = 10, batch 8", 512))
    first = 0.0
    for what, rows in shapes:
        print(f"{what}: a step of {rows} rows after 30 tokens, memories of 70")
        total = report(code, step(Model(), rows, path=30, memory=70))
        print(f"  the step {total:6.1f} us by count")
        first = first or total
    print("greedy, batch 1: beside the step, of fifteen drafts")
    print(f"  together {report(code, greedy_round()):6.1f} us by count")
    for width in (5, 10):
        print(f"exact beam, n = {width}: beside the step")
        report(code, looking_ahead(width))
    if first > BUDGET:
        sys.exit(f"a step at batch 1 takes {first:.1f} us by count: expected at most {BUDGET}")


if __name__ == "__main__":
    main()
