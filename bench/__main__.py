"""Times every operator, most of them beside a reference twin: `python bench/`.

A time is that of one call on one thread, the median of the rounds. The twins are slow, so the ratio
comes from a few separate rounds, in which operator and twin take turns. decoder_step and encode
also show the bytes and operations a second that they need at least, as shares of the rates that one
core reached in the operator's rounds (see ceilings.py).
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import torch

_HERE = Path(__file__).parent
# The twins are in tests/reference; campaigns need the clock and the machine's description too.
sys.path += [str(_HERE.parent), str(_HERE / "campaigns")]

import machine
from case import Measured, run, table

#: The operators; each has a module of its name with a function `cases`.
OPERATORS = ("decoder_step", "encode", "propose", "left_pad", "expand_drafts", "acceptance_length")


def measure_operators(names: Sequence[str], rounds: int) -> Iterator[Measured]:
    for name in names:
        for case in import_module(name).cases():
            yield run(case, rounds)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python bench/",
        description="Time every operator, most of them beside a reference twin.",
    )
    parser.add_argument("--only", metavar="NAME", nargs="+", choices=OPERATORS, default=OPERATORS)
    parser.add_argument("--json", metavar="FILE", type=Path, help="file for every round's times")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)

    rows: list[Measured] = []
    print(json.dumps(machine.describe()))
    for line in table(_collected(measure_operators(options.only, options.rounds), rows)):
        print(line, flush=True)
    if options.json is not None:
        report = {"machine": machine.describe(), "measured": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _collected(measured: Iterator[Measured], rows: list[Measured]) -> Iterator[Measured]:
    for row in measured:
        rows.append(row)
        yield row


if __name__ == "__main__":
    main()
