import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
import torch

from molspec import Model, load
from molspec.checkpoints import Checkpoint, CheckpointError, files, folder, read, write
from tests import refused, tiny
from tests.checkpoints.conftest import TOKENS
from tests.checkpoints.damage import in_json, in_weights


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "models" / "mine"


@pytest.fixture
def stored(checkpoint: Checkpoint, destination: Path) -> Path:
    write(checkpoint, destination)
    return destination


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_checkpoint_round_trips(checkpoint: Checkpoint, destination: Path, dtype: str) -> None:
    runs_in = {"cpu": "int8"}
    written = replace(checkpoint.to(dtype), task="product", aligned=True, runs_in=runs_in)
    write(written, destination)
    loaded = read(destination)
    assert loaded.fingerprint() == written.fingerprint()
    assert (loaded.dtype, loaded.aligned, loaded.runs_in) == (dtype, True, runs_in)
    assert (loaded.spec, loaded.vocabulary) == (written.spec, written.vocabulary)
    assert (loaded.ngram, loaded.card, loaded.task) == (written.ngram, written.card, "product")
    assert loaded.weights.keys() == written.weights.keys()
    for name, weight in written.weights.items():
        assert torch.equal(loaded.weights[name], weight)


def test_optional_files_may_be_absent(checkpoint: Checkpoint, destination: Path) -> None:
    write(Checkpoint(checkpoint.spec, checkpoint.weights, checkpoint.vocabulary), destination)
    assert {*os.listdir(destination)} == {"config.json", "model.safetensors", "vocabulary.json"}
    loaded = read(destination)
    assert loaded.ngram is None
    assert loaded.card is None


def test_card_with_wrong_bytes_is_read(stored: Path) -> None:
    (stored / "README.md").write_bytes(b"caf\xe9")
    assert read(stored).card == "caf\ufffd"


def test_other_users_may_read_checkpoint(checkpoint: Checkpoint, destination: Path) -> None:
    old_umask = os.umask(0o022)
    try:
        write(checkpoint, destination)
    finally:
        os.umask(old_umask)
    assert {file.stat().st_mode & 0o777 for file in destination.iterdir()} == {0o644}
    assert destination.stat().st_mode & 0o777 == 0o755


def test_existing_checkpoint_is_overwritten_only_on_request(
    checkpoint: Checkpoint, destination: Path
) -> None:
    for _ in range(2):  # an equal command has nothing to do
        write(checkpoint, destination)
    with pytest.raises(CheckpointError, match=rf"^{destination}: exists already$"):
        write(checkpoint.to("float16"), destination)
    for other in ({"runs_in": {"cpu": "int8"}}, {"aligned": True}, {"card": "# Another\n"}):
        refused(CheckpointError, "exists already", write, replace(checkpoint, **other), destination)
    assert read(destination).dtype == "float32"
    write(checkpoint.to("float16"), destination, overwrite=True)
    assert read(destination).dtype == "float16"
    assert os.listdir(destination.parent) == ["mine"]


def test_overwrite_keeps_link_to_checkpoint(checkpoint: Checkpoint, stored: Path) -> None:
    link = stored.with_name("link")
    link.symlink_to("mine")
    for dtype in ("float16", "bfloat16"):
        write(checkpoint.to(dtype), link, overwrite=True)
        assert read(stored).dtype == dtype
    assert sorted(os.listdir(stored.parent)) == ["link", "mine"]


def test_overwrite_refuses_folder_without_checkpoint(
    checkpoint: Checkpoint, destination: Path
) -> None:
    destination.mkdir(parents=True)
    (destination / "thesis.txt").write_text("years of work")
    refused(CheckpointError, "exists already", write, checkpoint, destination, overwrite=True)
    assert os.listdir(destination) == ["thesis.txt"]


def test_errors_name_the_path(checkpoint: Checkpoint, stored: Path) -> None:
    """Of a damaged n-gram model, and of a destination where nothing can be written."""
    refused(CheckpointError, rf"^{stored}: n-gram model: the file does not", load, stored)
    refused(OSError, "'/proc/mine'$", write, checkpoint, "/proc/mine")


@pytest.mark.parametrize("fails", ["save", "rename"])
def test_failed_write_leaves_old_checkpoint_intact(
    checkpoint: Checkpoint, stored: Path, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is written, or between the two renames."""
    rename = Path.rename

    def fail(*given: Any) -> Any:
        if fails == "rename" and not given[0].name.endswith(".unfinished"):
            return rename(*given)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((folder, "save") if fails == "save" else (Path, "rename")), fail)
    half = checkpoint.to("float16")
    refused(OSError, "No space left", write, half, stored, overwrite=True)
    assert os.listdir(stored.parent) == ["mine"]
    assert read(stored).dtype == "float32"


def test_next_write_removes_leftovers_of_killed_write(checkpoint: Checkpoint, stored: Path) -> None:
    for name in ("unfinished", "replaced"):  # killed between the two renames
        shutil.copytree(stored, stored.with_name(f".mine.{name}"))
    shutil.rmtree(stored)
    write(checkpoint, stored, overwrite=True)
    assert os.listdir(stored.parent) == ["mine"]
    assert read(stored).fingerprint() == checkpoint.fingerprint()


def in_config(path: Path, values: dict[str, Any]) -> None:
    (path / "config.json").write_text(json.dumps(values))


def change_spec(**values: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        spec = json.loads((path / "config.json").read_text())["spec"]
        in_json("config.json", spec={**spec, **values})(path)

    return change


def write_file(name: str, content: str) -> Callable[[Path], None]:
    return lambda path: (path / name).write_text(content) and None


DEEP = 100_000 * '{"a": ' + "1" + 100_000 * "}"

DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (write_file("config.json", "{"), "config.json is not JSON: Expecting"),
    (write_file("config.json", '{"a": 1, "a": 1}'), "an object has 'a' 2 times: expected it once"),
    (write_file("vocabulary.json", "{}"), "vocabulary fields are none"),
    (in_json("config.json", format_version=2), "says format 'molspec', version 2"),
    (in_json("config.json", spec=None), "config.json has no spec"),
    (in_json("config.json", runs_in="int8"), "config.json says runs_in 'int8'"),
    (in_json("config.json", aligned="yes"), "config.json says aligned 'yes'"),
    (in_json("config.json", alined=True), "config.json has unknown values: alined"),
    (change_spec(encoder_layers=300_000), "encoder_layers is 300000"),
    (write_file("config.json", DEEP), "config.json is nested too deeply"),
    (
        lambda path: (path / "vocabulary.json").unlink(),
        "vocabulary.json: No such file or directory$",
    ),
    (
        in_json("vocabulary.json", tokens=list(TOKENS[:-1])),
        "the vocabulary has 6 tokens, but the source embedding has 7 rows",
    ),
    (lambda path: os.truncate(path / "model.safetensors", 1000), "model.safetensors is damaged: "),
    (in_weights(lambda weights: weights.pop("output.bias")), "missing weights: output.bias"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_error_names_path_and_damage(
    stored: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(stored)
    refused(CheckpointError, rf"^{stored}: .*{message}", read, stored)


def flip_bit(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("file", ["config.json", "vocabulary.json", "model.safetensors"])
def test_no_flipped_bit_is_read_as_another_model(destination: Path, file: str) -> None:
    stored = replace(tiny.checkpoint(), aligned=True, task="retro", template=None)
    write(stored, destination)
    size = (destination / file).stat().st_size
    found = 0
    for at in range(0, size, max(1, size // 300)):
        flip_bit(destination / file, at)
        try:
            loaded = read(destination)
        except ValueError:
            found += 1
        else:
            assert loaded.fingerprint() == stored.fingerprint()
            assert (loaded.aligned, loaded.task) == (True, "retro")
        flip_bit(destination / file, at)
    assert found > 0.9 * min(size, 300)


@pytest.mark.parametrize(
    "change",
    [
        change_spec(norm_eps=1e-6),
        in_weights(lambda weights: weights["output.bias"].add_(1)),
        lambda path: write_file(
            "vocabulary.json",
            (path / "vocabulary.json").read_text().replace('"C", "O"', '"O", "C"'),
        )(path),
    ],
)
def test_a_changed_file_is_refused_until_its_fingerprint_is_taken_out(
    checkpoint: Checkpoint, stored: Path, change: Callable[[Path], None]
) -> None:
    assert read(stored).fingerprint() == checkpoint.fingerprint()
    change(stored)
    refused(CheckpointError, "do not have the fingerprint", read, stored)
    config = json.loads((stored / "config.json").read_text())
    del config["fingerprint"]
    in_config(stored, config)
    assert read(stored).fingerprint() != checkpoint.fingerprint()


def test_weights_are_hashed_once(destination: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the time of a load goes to their hash."""
    write(tiny.checkpoint(), destination)
    updates = []

    def counted(*given: Any, **options: Any) -> Any:
        updates.append(blake2b(*given, **options))
        return updates[-1]

    monkeypatch.setattr("molspec.checkpoints.checkpoint.blake2b", counted)
    load(destination)
    assert len(updates) == 1


def test_a_failed_write_leaves_the_file_before(
    checkpoint: Checkpoint, destination: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk(path: Path, data: str | bytes, **_: object) -> None:
        with path.open("wb") as stream:
            stream.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    write(checkpoint, destination)
    config, link = destination / "config.json", tmp_path / "link.json"
    before = config.read_bytes()
    with monkeypatch.context() as patch:
        for name in ("write_text", "write_bytes"):
            patch.setattr(Path, name, fill_disk)
        refused(OSError, f"No space left on device: '{config}'", files.write_file, config, b"{}")
    assert config.read_bytes() == before
    link.symlink_to(config)
    files.write_file(link, b"{}")
    assert (link.is_symlink(), config.read_bytes()) == (True, b"{}")
    assert not list(destination.glob("*.unfinished"))
    reading, writing = os.pipe()
    files.write_file(Path(f"/dev/fd/{writing}"), b"{}")
    assert os.read(reading, 9) == b"{}"
    for descriptor in (reading, writing):
        os.close(descriptor)


def test_error_for_training_folder_names_its_model(checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "state.pt").touch()
    refused(CheckpointError, "a training; it has no model yet", read, tmp_path)
    write(checkpoint, tmp_path / "model")
    refused(CheckpointError, f"a training; its model is {tmp_path / 'model'}$", read, tmp_path)


@pytest.mark.parametrize("drafter", ["spec", "heads", "tree"])
def test_a_file_that_is_truncated_later_changes_no_answer(tmp_path: Path, drafter: str) -> None:
    """A mapped file would end the process."""
    stored = tiny.with_heads() if drafter == "heads" else tiny.with_spec_drafter()
    write(stored, tmp_path / "model")
    model = load(tmp_path / "model")
    for file in (tmp_path / "model").rglob("*.safetensors"):
        os.truncate(file, 0)
    answers = model.predict(tiny.QUERIES, drafter=drafter, max_length=20)
    assert answers == Model(stored).predict(tiny.QUERIES, drafter=drafter, max_length=20)
