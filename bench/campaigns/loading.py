"""The cost of loading a model: seconds, and peak memory relative to the packed weights.

    python bench/campaigns/loading.py product retro

A name is a bundled model, or the path of a checkpoint. Each is written once in float32 and loaded
by a fresh process in each dtype. Memory is the process's own; the pages of the mapped checkpoint,
which the system may drop at any time, are not counted. Prints Markdown.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import machine
from molspec import checkpoints
from molspec.checkpoints.bundled import locate

DTYPES = ("int8", "bfloat16", "float32")
_MIB = 2**20
_LOAD = """
import json, sys, threading, time
import molspec

def own(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

molspec.load("product").predict(["CCO"])  # what any first prediction needs
base, peak, ended = own("RssAnon"), 0, threading.Event()

def watch():
    global peak
    while not ended.wait(0.002):
        peak = max(peak, own("RssAnon"))

watcher = threading.Thread(target=watch)
watcher.start()
began = time.perf_counter()
model = molspec.load(sys.argv[1], dtype=sys.argv[2])
seconds = time.perf_counter() - began
ended.set()
watcher.join()
print(json.dumps([seconds, peak - base, model.engine.packed.weights.nbytes]))
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", metavar="NAME", nargs="+")
    flags = parser.parse_args(arguments)
    print(f"{machine.described()}\n")
    print("| model | parameters, millions | dtype | seconds | packed MiB | peak MiB | of packed |")
    print("|---|---:|---|---:|---:|---:|---:|")
    for name in flags.models:
        checkpoint = checkpoints.read(locate(name))
        count = sum(weight.numel() for weight in checkpoint.weights.values()) / 1e6
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            checkpoints.write(checkpoint.to("float32"), path)
            for dtype in DTYPES:
                command = (sys.executable, "-c", _LOAD, str(path), dtype)
                seconds, peak, packed = json.loads(subprocess.check_output(command))
                print(
                    f"| {name} | {count:.0f} | {dtype} | {seconds:.2f} | {packed / _MIB:.0f} "
                    f"| {peak / _MIB:.0f} | {peak / packed:.2f}x |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
