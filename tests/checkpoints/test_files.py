"""Weights in several files, named as Hugging Face's libraries name them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from molspec.checkpoints import Checkpoint, CheckpointError, convert, read, write
from tests import refused
from tests.checkpoints.damage import in_json

FIRST, SECOND = (f"model-0000{n}-of-00002.safetensors" for n in (1, 2))
THIRD = "model-00002-of-00003.safetensors"
INDEX = "model.safetensors.index.json"


def split(folder: Path) -> Path:
    """Put the weights of a folder into two files and an index."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    placed = {}
    for name, keys in ((FIRST, list(weights)[:9]), (SECOND, list(weights)[9:])):
        save_file({key: weights[key] for key in keys}, folder / name)
        placed |= dict.fromkeys(keys, name)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    return folder


@pytest.fixture
def parts(checkpoint: Checkpoint, tmp_path: Path) -> Path:
    write(checkpoint, tmp_path / "parts")
    return split(tmp_path / "parts")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("has_index", [True, False])
def test_parts_are_the_model_of_the_whole(
    checkpoint: Checkpoint, tmp_path: Path, dtype: str, has_index: bool
) -> None:
    write(checkpoint.to(dtype), tmp_path / "whole")
    whole = read(tmp_path / "whole")
    parts = split(shutil.copytree(tmp_path / "whole", tmp_path / "parts"))
    if not has_index:
        (parts / INDEX).unlink()
    assert read(parts).fingerprint() == whole.fingerprint()
    convert(parts, tmp_path / "joined")
    joined, before = (tmp_path / name / "model.safetensors" for name in ("joined", "whole"))
    assert joined.read_bytes() == before.read_bytes()


def change(name: str, edit: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        weights = load_file(folder / name)
        edit(weights)
        save_file(weights, folder / name)

    return damage


DAMAGE = {
    "last missing": (lambda folder: (folder / SECOND).unlink(), f"{SECOND} is missing$"),
    "first missing": (lambda folder: (folder / FIRST).unlink(), f"{FIRST} is missing$"),
    "of three": (
        lambda folder: (folder / SECOND).rename(folder / THIRD),
        f"{THIRD} is of another model than {FIRST}$",
    ),
    "twice": (
        lambda folder: shutil.copy(folder / FIRST, folder / SECOND),
        f"{SECOND} has .*, which a part before it has too$",
    ),
    "more than the index": (
        change(SECOND, lambda weights: weights.update(other=torch.zeros(1))),
        f"{SECOND} is of another model: {INDEX} has other in no part$",
    ),
    "less than the index": (
        change(SECOND, lambda weights: weights.pop("source_embedding")),
        f"{SECOND} is of another model: {INDEX} has source_embedding in {SECOND}$",
    ),
    "other values": (
        change(SECOND, lambda weights: weights["source_embedding"].add_(1)),
        "do not have the fingerprint",
    ),
    "index": (in_json(INDEX, weight_map=None), INDEX),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_part_that_does_not_belong_is_named(parts: Path, name: str) -> None:
    damage, message = DAMAGE[name]
    damage(parts)
    refused(CheckpointError, f"^{parts}: .*{message}", read, parts)
