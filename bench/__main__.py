"""Every operator's time beside its reference twin's: `python bench/`.

Times are of one call on one thread, the median of rounds. The twin is slow: it takes turns with the
operator in a few rounds of their own, of which the ratio is. decoder_step and encode also show the
bytes and operations a second that they need at least, as shares of what one core was measured to
read and to compute in the operator's rounds (ceilings.py says how).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))  # where the twins are: tests/reference

import machine
from case import Measured, run, table

#: One module of this name an operator, with `cases()`.
OPERATORS = (
    "decoder_step",
    "encode",
    "propose",
    "left_pad",
    "expand_drafts",
    "acceptance_length",
    "select_hypotheses",
)


def measured(names: Sequence[str], rounds: int) -> Iterator[Measured]:
    for name in names:
        for case in import_module(name).cases():
            yield run(case, rounds)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python bench/", description="Time every operator beside its reference twin."
    )
    parser.add_argument("--only", metavar="NAME", nargs="+", choices=OPERATORS, default=OPERATORS)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every round there")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)

    rows: list[Measured] = []
    print(json.dumps(machine.describe()))
    for line in table(_kept(measured(options.only, options.rounds), rows)):
        print(line, flush=True)
    if options.json is not None:
        report = {"machine": machine.describe(), "measured": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _kept(measured: Iterator[Measured], rows: list[Measured]) -> Iterator[Measured]:
    for row in measured:
        rows.append(row)
        yield row


if __name__ == "__main__":
    main()
