import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from molspec.checkpoints import CheckpointError, convert, names, read, write
from tests import refused, tiny
from tests.checkpoints import stored


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return stored.copy("lightning", tmp_path / "lightning").parent


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_convert_writes_a_folder_with_the_task(source: Path, tmp_path: Path, dtype: str) -> None:
    given = None if dtype == "float32" else dtype
    written = convert(source, tmp_path / "mine", given, task="retro")
    before, after = read(source), read(tmp_path / "mine")
    assert before.task is None
    assert after.task == "retro"
    assert (after.spec, after.vocabulary) == (before.spec, before.vocabulary)
    assert after.fingerprint() == written.fingerprint() == before.to(dtype).fingerprint()


@pytest.mark.parametrize("wrong", [{"dtype": "float8"}, {"task": "retrosynthesis"}])
def test_a_wrong_value_writes_nothing(source: Path, tmp_path: Path, wrong: dict[str, Any]) -> None:
    ((name, value),) = wrong.items()
    refused(f"{name} is {value!r}", convert, source, tmp_path / "mine", **wrong)
    assert not (tmp_path / "mine").exists()


def test_existing_destination_is_refused_before_source_is_read(
    source: Path, tmp_path: Path
) -> None:
    (source / "model.ckpt").write_bytes(b"damaged")
    refused(CheckpointError, "exists already", convert, source, tmp_path)


def test_error_lists_supported_formats(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(CheckpointError, match=rf"^{tmp_path}: no checkpoint in it; looked") as info:
        read(tmp_path)
    for supported in ("Hugging Face", "config.json", "Chemformer", "Lightning", "OpenNMT-py .pt"):
        assert supported in str(info.value)
    refused(CheckpointError, "absent: no such file or folder$", read, tmp_path / "absent")
    refused(CheckpointError, ": File name too long$", read, "a" * 300)


def test_a_pointer_of_git_lfs_and_an_adapter_are_named(source: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (source / "model.ckpt").write_text(pointer)
    for path in (source, source / "model.ckpt"):
        refused(CheckpointError, r"model\.ckpt is a pointer; `git lfs pull`", read, path)
    (source / "model.ckpt").rename(source / "adapter_config.json")
    (source / "adapter_config.json").write_text("{}")
    refused(CheckpointError, "adapter_config.json is of an adapter.*merge_and_unload", read, source)


def test_a_pipe_is_refused_and_a_linked_card_not_copied(tmp_path: Path) -> None:
    model, copy = tmp_path / "model", tmp_path / "copy"
    shared = tiny.checkpoint()
    key, query = (f"encoder.layers.0.self_attention.{part}.weight" for part in ("key", "query"))
    write(replace(shared, weights={**shared.weights, key: shared.weights[query]}), model)
    (tmp_path / "secret").write_text("secret")
    (model / "README.md").symlink_to("../secret")
    assert convert(model, copy).card is None
    assert not (copy / "README.md").exists()
    os.mkfifo(copy / "ngram.bin")
    refused(CheckpointError, "ngram.bin is a pipe or a device", read, copy)


@pytest.mark.parametrize("name", ["a.lora_A.default.weight", "a.fc1.qweight", "a.weight.absmax"])
def test_weights_of_adapters_and_of_quantisation_are_named(name: str) -> None:
    refused(f"{name} is a weight of an? (adapter|quantised)", names.unwrapped, {name: 0})


@pytest.mark.parametrize(
    "part", ["mp_rank_00_model_states.pt", "0/zero_pp_mp_rank_00_model_states.pt"]
)
def test_a_folder_of_deepspeed_is_named(tmp_path: Path, part: str) -> None:
    (tmp_path / part).parent.mkdir(exist_ok=True)
    (tmp_path / part).write_bytes(b"x")
    refused(CheckpointError, "DeepSpeed", read, tmp_path)
