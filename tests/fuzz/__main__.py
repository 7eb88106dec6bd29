"""Run fuzz targets: `python -m tests.fuzz [TARGET ...] [--seconds N] [--runs N] [--seed N]`.

Each target runs for so long in a process of its own, led by what code its inputs reach where
atheris is installed, otherwise by chance alone (and so with --chance). What is found lies in
build/fuzz, where a later run goes on; an input that fails goes to build/fuzz/TARGET-failure and the
run ends.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz import TARGETS, target
from tests.fuzz.chance import CORPUS, inputs

_FOUND = Path("build/fuzz")


def by_chance(name: str, arguments: argparse.Namespace) -> None:
    """Inputs made of the corpus by chance."""
    run, began = target(name), time.monotonic()
    for count, data in enumerate(inputs(name, arguments.seed)):
        if count == arguments.runs or time.monotonic() - began > arguments.seconds:
            print(f"{name}: {count} inputs, {time.monotonic() - began:.0f} s")
            return
        try:
            run(data)
        except BaseException:
            (_FOUND / f"{name}-failure").write_bytes(data)
            raise


def by_coverage(name: str, arguments: argparse.Namespace) -> None:
    """Let libFuzzer choose inputs that reach new code."""
    import atheris

    with atheris.instrument_imports(include=["molspec"]):
        run = target(name)
    found = _FOUND / name
    found.mkdir(exist_ok=True)
    options = {
        "max_total_time": int(arguments.seconds),
        "runs": arguments.runs,
        "seed": arguments.seed or 1,
        "rss_limit_mb": 8192,
        "timeout": 300,
        "print_final_stats": 1,
        "artifact_prefix": _FOUND / f"{name}-failure-",
    }
    told = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([sys.argv[0], *told, str(found), str(CORPUS / name)], run)
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--runs", type=int, default=-1, help="inputs of each target at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chance", action="store_true", help="not led by coverage")
    arguments = parser.parse_args()
    _FOUND.mkdir(parents=True, exist_ok=True)
    names = arguments.targets or list(TARGETS)
    if len(names) == 1:
        led = find_spec("atheris") is not None and not arguments.chance
        (by_coverage if led else by_chance)(names[0], arguments)
        return
    options = [argument for argument in sys.argv[1:] if argument not in arguments.targets]
    command = [sys.executable, "-m", "tests.fuzz", *options]
    failed = [name for name in names if subprocess.run([*command, name], check=False).returncode]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
