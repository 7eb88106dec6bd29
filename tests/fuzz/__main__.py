"""Runs fuzz targets: `python -m tests.fuzz [TARGET ...] [--seconds N] [--runs N] [--seed N]`.

Each target runs for --seconds in its own process. If atheris is installed, code coverage guides
its inputs; otherwise, or with --chance, they are random. Inputs that reach new code are stored in
build/fuzz, where a later run continues. A failing input is written to build/fuzz/TARGET-failure and
ends the run.
"""

import argparse
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz import CORPUS, TARGETS, inputs, target

_OUTPUT = Path("build/fuzz")


def run_random_inputs(name: str, arguments: argparse.Namespace) -> None:
    """Runs the corpus and random inputs."""
    run, began = target(name), time.monotonic()
    for count, data in enumerate(inputs(name, arguments.seed)):
        if count == arguments.runs or time.monotonic() - began > arguments.seconds:
            print(f"{name}: {count} inputs, {time.monotonic() - began:.0f} s")
            return
        try:
            run(data)
        except BaseException:
            (_OUTPUT / f"{name}-failure").write_bytes(data)
            raise


def run_guided_inputs(name: str, arguments: argparse.Namespace) -> None:
    """Lets libFuzzer choose inputs that reach new code."""
    import atheris

    with atheris.instrument_imports(include=["molspec"]):
        run = target(name)
    new_corpus = _OUTPUT / name
    new_corpus.mkdir(exist_ok=True)
    options = {
        "max_total_time": int(arguments.seconds),
        "runs": arguments.runs,
        "seed": arguments.seed or 1,
        "rss_limit_mb": 8192,
        "timeout": 300,
        "print_final_stats": 1,
        "artifact_prefix": _OUTPUT / f"{name}-failure-",
    }
    flags = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([sys.argv[0], *flags, str(new_corpus), str(CORPUS / name)], run)
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--runs", type=int, default=-1, help="inputs of each target at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chance", action="store_true", help="not led by coverage")
    arguments = parser.parse_args()
    _OUTPUT.mkdir(parents=True, exist_ok=True)
    names = arguments.targets or list(TARGETS)
    if len(names) == 1:
        guided = find_spec("atheris") is not None and not arguments.chance
        (run_guided_inputs if guided else run_random_inputs)(names[0], arguments)
        return
    options = [argument for argument in sys.argv[1:] if argument not in arguments.targets]
    command = [sys.executable, "-m", "tests.fuzz", *options]
    failed = [name for name in names if subprocess.run([*command, name], check=False).returncode]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
