"""`python bench/gpu/home.py RUN OUT`: what a training has so far, small enough to be sent home.

OUT gets best/, the checkpoint of the best validation in float16; averaged.safetensors, the weights
averaged up to the last saved state, in float16; log.csv and validation.csv.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from safetensors.torch import save_file

from molspec import checkpoints
from molspec.training.folder import read_training


def main(run: Path, out: Path) -> None:
    """Write what there is and print it."""
    if (run / "model").is_dir():
        checkpoints.write(checkpoints.read(run / "model").to("float16"), out / "best")
    if (run / "state.pt").exists():
        state = read_training(run)
        trainer = state["trainer"]
        halves = {name: weight.half() for name, weight in trainer["averaged"].items()}
        save_file(halves, out / "averaged.safetensors")
        print(f"state of step {trainer['step_count']}, minute {state['seconds'] / 60:.2f}")
    for name in ("log.csv", "validation.csv"):
        if (run / name).exists():
            shutil.copy(run / name, out / name)
    for file in sorted(path for path in out.rglob("*") if path.is_file()):
        print(f"{file.stat().st_size:10} {file.relative_to(out)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
