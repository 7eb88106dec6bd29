"""`python bench/gpu PART [--device cuda] [--json FILE]`: a part of bench/gpu.sh."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import without_rdkit

without_rdkit.provide()

import checks
import kernels
import times

import laws

_PARTS = {
    "checks": checks.run,
    "laws": laws.run,
    "small": checks.small,
    "times": times.run,
    "kernels": kernels.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/gpu", description=__doc__)
    parser.add_argument("part", choices=_PARTS)
    parser.add_argument("--device", default="cuda", help="cpu runs what can be run without a GPU")
    parser.add_argument("--few", action="store_true", help="less of everything, to try it out")
    parser.add_argument("--json", type=Path, help="file for the report")
    arguments = parser.parse_args()
    report = _PARTS[arguments.part](arguments.device, arguments.few)
    text = json.dumps({"part": arguments.part, "device": arguments.device, **report}, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    sys.exit(0 if report.get("ok", True) else 1)


if __name__ == "__main__":
    main()
