"""Proves libraries without a GPU: they load, register every operator, and answer by both models."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]

import without_rdkit

without_rdkit.provide()

import subject
import torch

from molspec.engine import ops
from molspec.prediction.model import Model

#: Operators of the CPU only, beside those of no device.
_OF_THE_CPU = {"prepare_step"}


def _has(name: str, key: str) -> bool:
    found: bool = torch._C._dispatch_has_kernel_for_dispatch_key(f"molspec::{name}", key)
    return found


def main() -> None:
    """Print what was proved; raise at the first thing that is wrong."""
    ops.load_cuda()
    names = {
        name.split("::")[1].split(".")[0]
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("molspec::")
    }
    of_devices = sorted(
        name for name in names - _OF_THE_CPU if not _has(name, "CompositeExplicitAutograd")
    )
    missing = [name for name in of_devices if not _has(name, "CUDA")]
    if missing or not of_devices:
        raise SystemExit(f"operators without a CUDA kernel: {missing} of {of_devices}")
    print(f"ok    {len(of_devices)} operators have CUDA kernels")
    for name in ("product", "retro"):
        checkpoint, weights = subject.checkpoint(name, few=False)
        query = subject.queries(name, False, 1)[0]
        (result,) = Model(checkpoint, "float32").predict([query])
        best = result.predictions[0]
        print(f"ok    {name} ({weights}): {query} -> {best.smiles}, {best.log_prob:.4f}")


if __name__ == "__main__":
    main()
