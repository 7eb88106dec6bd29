"""`python bench/gpu/home.py RUN OUT`: what a training has so far, small enough to be sent home.

OUT gets best/, the checkpoint of the best validation in float16; averaged.safetensors, the weights
averaged up to the last saved state, in float16; log.csv and validation.csv.
`python bench/gpu/home.py CONFIG`: whether the model of this configuration is small enough.
"""

import json
import shutil
import sys
from math import prod
from pathlib import Path

from safetensors.torch import save_file

from molspec import checkpoints
from molspec.training.config import TrainConfig
from molspec.training.folder import read_training

#: Bytes of a file that is sent home, and tokens that a pack may have.
_MOST_BYTES, _MOST_TOKENS = 16 << 20, 254


def main(run: Path, out: Path) -> None:
    """Write what there is and print it."""
    if (run / "model").is_dir():
        best = checkpoints.read(run / "model").to("float16")
        checkpoints.write(best, out / "best", overwrite=True)  # that of an earlier call
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


def check(config: Path) -> None:
    """Print the size of the weights in float16; end with status 1 if that is too large."""
    spec = TrainConfig.from_json(json.loads(config.read_text())).spec(_MOST_TOKENS)
    size = 2 * sum(map(prod, spec.weight_shapes().values()))
    layers = f"{spec.encoder_layers} + {spec.decoder_layers} layers"
    print(f"{layers}, feed_forward {spec.feed_forward}: {size / 2**20:.1f} MiB in float16")
    if size > _MOST_BYTES:
        sys.exit(f"expected at most {_MOST_BYTES >> 20} MiB: set model in {config}")


if __name__ == "__main__":
    check(Path(sys.argv[1])) if len(sys.argv) == 2 else main(Path(sys.argv[1]), Path(sys.argv[2]))
