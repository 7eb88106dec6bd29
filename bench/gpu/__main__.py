"""`python bench/gpu PART [--device cuda] [--lines FILE]`: a part of bench/gpu.sh."""

import argparse
import json
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import without_rdkit

without_rdkit.provide()

import checks
import host
import kernels
import modules
import probe
import real
import rounds
import times
from place import DTYPES, Part, Place

import laws

_PARTS: dict[str, Part] = {
    "probe": probe.run,
    "dense": checks.dense,
    **{
        f"{check.__name__}-{dtype}": partial(check, dtype=dtype)
        for check in (checks.engine, checks.wide, checks.places)
        for dtype in DTYPES
    },
    "greedy-rounds": partial(rounds.device_rounds, searches=rounds.GREEDY),
    "beam-rounds": partial(rounds.device_rounds, searches=rounds.BEAMS),
    "host-rounds": rounds.host_rounds,
    **{f"laws-{dtype}": partial(laws.run, dtype=dtype) for dtype in DTYPES},
    "modules": modules.run,
    "ensembles": rounds.ensembles,
    "small": rounds.small,
    "small-engine": rounds.small_engine,
    "small-rounds": rounds.small_rounds,
    "real": real.run,
    "processes": real.processes,
    "times": times.run,
    "times-more": times.more,
    "host": host.run,
    "kernels": kernels.run,
    "one-round": kernels.one_round,
}


def main() -> None:
    """Print each result at once as a line of JSON, so that a run cut off later loses none."""
    parser = argparse.ArgumentParser(prog="bench/gpu", description=__doc__)
    parser.add_argument("part", choices=_PARTS)
    parser.add_argument(
        "--device",
        default="cuda",
        choices=("cuda", "cpu", "emulation"),
        help="cpu: without the CUDA operators; emulation: the CUDA operators as host code",
    )
    parser.add_argument("--few", action="store_true", help="less of everything, for a trial")
    parser.add_argument("--lines", type=Path, help="file to append the lines to")
    arguments = parser.parse_args()
    ok = True
    with ExitStack() as stack:
        outputs = [sys.stdout]
        if arguments.lines:
            outputs.append(stack.enter_context(arguments.lines.open("a")))
        for row in _PARTS[arguments.part](Place.on(arguments.device, arguments.few)):
            ok = ok and row.get("ok", True)
            line = json.dumps({"part": arguments.part, "device": arguments.device, **row})
            for output in outputs:
                print(line, file=output, flush=True)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
