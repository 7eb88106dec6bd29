"""Checkpoints of other libraries in tests/data, and the log-probs that their models gave.

They were written by tiny copies of the libraries' models (tests/checkpoints/opennmt_model.py,
chemformer_model.py and paper_model.py of commit 84c60175); `nox -s opennmt` compares with OpenNMT
itself.
"""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "data/checkpoints"


def file_of(folder: Path) -> Path:
    """The file of torch.save in a folder."""
    (file,) = (path for path in folder.iterdir() if path.suffix in (".pt", ".ckpt"))
    return file


def content(name: str) -> Any:
    """What a file holds; Chemformer's has an object of a class that is missing here."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        stand_in("molbart.decoder", "DecodeSampler", monkeypatch)
        return torch.load(file_of(FOLDER / name), weights_only=False)


def copy(name: str, folder: Path, change: Callable[[Any], object] | None = None) -> Path:
    """Copies a checkpoint to a folder, with a change of what its file holds; returns the file."""
    shutil.copytree(FOLDER / name, folder, dirs_exist_ok=True)
    (folder / "expected.safetensors").unlink()
    if change is not None:
        changed = content(name)
        change(changed)
        with pytest.MonkeyPatch.context() as monkeypatch:
            sampler = stand_in("molbart.decoder", "DecodeSampler", monkeypatch)
            if "hyper_parameters" in changed:
                changed["hyper_parameters"]["decode_sampler"] = sampler()
            torch.save(changed, file_of(folder))
    return file_of(folder)


def stand_in(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> type:
    """A class that pickles under the name of a library's class while the patch is active."""
    stand_in = type(name, (), {"__module__": module})
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        package = ".".join(parts[:end])
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    setattr(sys.modules[module], name, stand_in)
    return stand_in
