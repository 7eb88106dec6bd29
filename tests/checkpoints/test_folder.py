import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from molspec import load
from molspec.checkpoints import Checkpoint, CheckpointError, folder, read, seal, write


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "models" / "mine"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_what_is_written_comes_back(checkpoint: Checkpoint, destination: Path, dtype: str) -> None:
    written = checkpoint.to(dtype)
    write(written, destination)
    back = read(destination)
    assert back.fingerprint() == written.fingerprint()
    assert back.dtype == dtype
    assert (back.spec, back.vocabulary) == (written.spec, written.vocabulary)
    assert (back.ngram, back.card) == (written.ngram, written.card)
    assert back.weights.keys() == written.weights.keys()
    for name, weight in written.weights.items():
        assert torch.equal(back.weights[name], weight)


def test_what_is_optional_may_be_absent(checkpoint: Checkpoint, destination: Path) -> None:
    write(Checkpoint(checkpoint.spec, checkpoint.weights, checkpoint.vocabulary), destination)
    assert sorted(os.listdir(destination)) == [
        "config.json",
        "model.safetensors",
        "vocabulary.json",
    ]
    back = read(destination)
    assert back.ngram is None
    assert back.card is None


def test_others_may_read_it(checkpoint: Checkpoint, destination: Path) -> None:
    mask = os.umask(0o022)
    try:
        write(checkpoint, destination)
    finally:
        os.umask(mask)
    assert {file.stat().st_mode & 0o777 for file in destination.iterdir()} == {0o644}
    assert destination.stat().st_mode & 0o777 == 0o755


def test_a_destination_is_not_overwritten_unasked(
    checkpoint: Checkpoint, destination: Path
) -> None:
    write(checkpoint, destination)
    with pytest.raises(CheckpointError, match=rf"^{destination}: exists already$"):
        write(checkpoint.to("float16"), destination)
    assert read(destination).dtype == "float32"
    write(checkpoint.to("float16"), destination, overwrite=True)
    assert read(destination).dtype == "float16"
    assert os.listdir(destination.parent) == ["mine"]


def test_only_a_checkpoint_is_overwritten(checkpoint: Checkpoint, destination: Path) -> None:
    destination.mkdir(parents=True)
    (destination / "thesis.txt").write_text("years of work")
    with pytest.raises(CheckpointError, match="exists already"):
        write(checkpoint, destination, overwrite=True)
    assert os.listdir(destination) == ["thesis.txt"]


def test_a_damaged_ngram_model_is_named_with_the_path(
    checkpoint: Checkpoint, destination: Path
) -> None:
    write(checkpoint, destination)
    with pytest.raises(CheckpointError, match=rf"^{destination}: n-gram model: the file does not"):
        load(destination)


def test_a_place_that_cannot_be_written_is_named(checkpoint: Checkpoint) -> None:
    with pytest.raises(OSError, match=r"'/proc/mine'$"):
        write(checkpoint, "/proc/mine")


def test_a_failed_write_leaves_what_was_there(
    checkpoint: Checkpoint, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(checkpoint, destination)

    def fail(weights: Any) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "save", fail)
    with pytest.raises(OSError, match="No space left"):
        write(checkpoint.to("float16"), destination, overwrite=True)
    assert os.listdir(destination.parent) == ["mine"]
    assert read(destination).dtype == "float32"


def test_what_a_kill_left_goes_with_the_next_write(
    checkpoint: Checkpoint, destination: Path
) -> None:
    write(checkpoint, destination)
    for name in ("unfinished", "replaced"):  # killed between the two renames
        shutil.copytree(destination, destination.with_name(f".mine.{name}"))
    shutil.rmtree(destination)
    write(checkpoint, destination, overwrite=True)
    assert os.listdir(destination.parent) == ["mine"]
    assert read(destination).fingerprint() == checkpoint.fingerprint()


def change_config(**values: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps({**config, **values}))

    return change


def change_spec(**values: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        spec = json.loads((path / "config.json").read_text())["spec"]
        change_config(spec={**spec, **values})(path)

    return change


def put(name: str, content: str) -> Callable[[Path], None]:
    return lambda path: (path / name).write_text(content) and None


def without_vocabulary(path: Path) -> None:
    (path / "vocabulary.json").unlink()


def shorter_vocabulary(path: Path) -> None:
    vocabulary = json.loads((path / "vocabulary.json").read_text())
    vocabulary["tokens"].pop()
    (path / "vocabulary.json").write_text(json.dumps(vocabulary))


def truncated_weights(path: Path) -> None:
    whole = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(whole[:1000])


def nan_weight(path: Path) -> None:
    weights = load_file(path / "model.safetensors")
    weights["output.bias"][2] = float("nan")
    save_file(weights, path / "model.safetensors")


def missing_weight(path: Path) -> None:
    weights = load_file(path / "model.safetensors")
    del weights["output.bias"]
    save_file(weights, path / "model.safetensors")


DEEP = 100_000 * '{"a": ' + "1" + 100_000 * "}"

DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (put("config.json", "{"), "config.json is no JSON: Expecting"),
    (put("config.json", "[]"), "config.json holds a list: expected an object"),
    (put("vocabulary.json", "C O"), "vocabulary.json is no JSON: Expecting"),
    (put("vocabulary.json", "{}"), "vocabulary fields are none: expected tokens, pad_id"),
    (change_config(format="other"), "config.json says format 'other', version 1: expected"),
    (change_config(format_version=2), "says format 'molspec', version 2: expected 'molspec', 1"),
    (change_config(spec=None), "config.json has no spec"),
    (change_spec(heads=2), "unknown model fields: heads"),
    (change_spec(head_count=3), "d_model is 8: expected a multiple of head_count 3"),
    (change_spec(encoder_layers=300_000), "encoder_layers is 300000: expected 1 to 1024"),
    (change_spec(encoder_layers=1000), "missing weights: encoder.layers.1."),
    (change_spec(max_positions=2**20), "max_positions is 1048576: expected 1 to 16384"),
    (put("config.json", DEEP), "config.json is nested too deeply"),
    (put("vocabulary.json", DEEP), "vocabulary.json is nested too deeply"),
    (change_spec(feed_forward=13), r"has shape \(12, 8\): expected \(13, 8\)"),
    (without_vocabulary, "vocabulary.json: No such file or directory$"),
    (shorter_vocabulary, "the vocabulary has 6 tokens, but the source embedding has 7 rows"),
    (truncated_weights, "model.safetensors is damaged: "),
    (nan_weight, "weight output.bias holds NaN or infinity"),
    (missing_weight, "missing weights: output.bias"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_damage_is_named_with_the_path(
    checkpoint: Checkpoint, destination: Path, damage: Callable[[Path], None], message: str
) -> None:
    write(checkpoint, destination)
    damage(destination)
    with pytest.raises(CheckpointError, match=rf"^{destination}: .*{message}"):
        read(destination)


def flip_a_bit(file: Path, at: float) -> None:
    content = bytearray(file.read_bytes())
    content[int(at * len(content))] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("shard_bytes", [None, 600])
@pytest.mark.parametrize("at", [0.6, 0.9])
def test_one_bit_of_the_weights_is_seen(
    checkpoint: Checkpoint, destination: Path, at: float, shard_bytes: int | None
) -> None:
    write(checkpoint, destination, shard_bytes=shard_bytes)
    read(destination)
    flip_a_bit(max(destination.glob("*.safetensors")), at)
    with pytest.raises(CheckpointError, match=r"damaged: .* do not have the sha256"):
        read(destination)


CHANGES = (
    change_config(task="retro"),
    change_spec(norm_eps=1e-6),
    lambda path: put(
        "vocabulary.json", (path / "vocabulary.json").read_text().replace('"C", "O"', '"O", "C"')
    )(path),
)


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_on_purpose_is_sealed(
    checkpoint: Checkpoint, destination: Path, change: Callable[[Path], None]
) -> None:
    write(checkpoint, destination)
    change(destination)
    with pytest.raises(CheckpointError, match=f"on purpose, `molspec seal {destination}`$"):
        read(destination)
    seal(destination)
    assert read(destination).fingerprint()
    assert "sha256" in json.loads((destination / "config.json").read_text())


def test_what_is_broken_is_not_sealed(checkpoint: Checkpoint, destination: Path) -> None:
    write(checkpoint, destination)
    before = (destination / "config.json").read_bytes()
    nan_weight(destination)
    with pytest.raises(CheckpointError, match=rf"^{destination}: weight output.bias holds NaN"):
        seal(destination)
    assert (destination / "config.json").read_bytes() == before


def test_a_folder_without_a_hash_is_read(checkpoint: Checkpoint, destination: Path) -> None:
    write(checkpoint, destination)
    config = json.loads((destination / "config.json").read_text())
    del config["sha256"]
    (destination / "config.json").write_text(json.dumps(config))
    assert read(destination).fingerprint() == checkpoint.fingerprint()


def test_the_task_comes_back(checkpoint: Checkpoint, destination: Path) -> None:
    write(replace(checkpoint, task="product"), destination)
    assert read(destination).task == "product"


def test_a_training_names_its_model(checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "state.pt").touch()
    with pytest.raises(CheckpointError, match="a training; it has no model yet"):
        read(tmp_path)
    write(checkpoint, tmp_path / "model")
    with pytest.raises(CheckpointError, match=f"a training; its model is {tmp_path / 'model'}$"):
        read(tmp_path)
