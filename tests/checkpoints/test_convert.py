from pathlib import Path
from typing import Any

import pytest
import torch

from molspec.checkpoints import CheckpointError, convert, read
from tests.checkpoints import stored
from tests.refusals import refused


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return stored.copy("lightning", tmp_path / "lightning").parent


@pytest.mark.parametrize("dtype", [None, "float16"])
def test_convert_writes_lightning_checkpoint_as_folder(
    source: Path, tmp_path: Path, dtype: str | None
) -> None:
    written = convert(source, tmp_path / "mine", dtype)
    before, after = read(source), read(tmp_path / "mine")
    assert (after.spec, after.vocabulary) == (before.spec, before.vocabulary)
    assert after.dtype == written.dtype == (dtype or "float32")
    for name, weight in before.weights.items():
        expected = weight.half() if dtype else weight
        assert torch.equal(after.weights[name], expected)
        assert torch.equal(written.weights[name], expected)


def test_convert_sets_the_task(source: Path, tmp_path: Path) -> None:
    assert read(source).task is None
    convert(source, tmp_path / "mine", task="retro")
    assert read(tmp_path / "mine").task == "retro"
    wrong: Any = "retrosynthesis"
    refused("task is 'retrosynthesis'", convert, source, tmp_path / "other", task=wrong)


def test_existing_destination_is_refused_before_source_is_read(
    source: Path, tmp_path: Path
) -> None:
    (source / "model.ckpt").write_bytes(b"damaged")
    refused(CheckpointError, "exists already", convert, source, tmp_path)


def test_invalid_dtype_writes_nothing(source: Path, tmp_path: Path) -> None:
    refused("dtype is 'float8'", convert, source, tmp_path / "mine", "float8")
    assert not (tmp_path / "mine").exists()


def test_error_lists_supported_formats(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(CheckpointError, match=rf"^{tmp_path}: no checkpoint in it; looked") as info:
        read(tmp_path)
    for supported in ("Hugging Face", "config.json", "Chemformer", "Lightning", "OpenNMT-py .pt"):
        assert supported in str(info.value)
    refused(CheckpointError, "absent: no such file or folder$", read, tmp_path / "absent")
    refused(CheckpointError, ": File name too long$", read, "a" * 300)


def test_a_pointer_of_git_lfs_is_named(source: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (source / "model.ckpt").write_text(pointer)
    for path in (source, source / "model.ckpt"):
        refused(CheckpointError, r"model\.ckpt is a pointer; `git lfs pull`", read, path)


@pytest.mark.parametrize(
    "part", ["mp_rank_00_model_states.pt", "0/zero_pp_mp_rank_00_model_states.pt"]
)
def test_a_folder_of_deepspeed_is_named(tmp_path: Path, part: str) -> None:
    (tmp_path / part).parent.mkdir(exist_ok=True)
    (tmp_path / part).write_bytes(b"x")
    refused(CheckpointError, "DeepSpeed", read, tmp_path)
