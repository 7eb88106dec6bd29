import os
import resource
import zipfile
from contextlib import suppress
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch

from molspec.checkpoints import CheckpointError, inert_pickle, read
from molspec.checkpoints.inert_pickle import Inert, load
from molspec.training.folder import read_state
from tests import refused
from tests.fuzz.files import FORMATS, packed


class Trap:
    """Runs a command when its pickle is loaded."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (self.command,)


class Stateful:
    def __init__(self) -> None:
        self.size = 3

    def __setstate__(self, state: object) -> None:
        raise AssertionError("the class's own code ran")


class ListSubclass(list):  # type: ignore[type-arg]
    pass


@pytest.mark.parametrize("zipped", [True, False])
def test_loading_runs_no_code(tmp_path: Path, zipped: bool) -> None:
    stored = {"trap": Trap(f"touch {tmp_path / 'sprung'}"), "object": Stateful(), "call": os.system}
    torch.save(stored, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    found = load(tmp_path / "x.pt")
    assert not (tmp_path / "sprung").exists()
    assert isinstance(found["trap"], Inert)
    assert found["trap"].class_name.endswith(".system")
    assert found["object"].class_name.endswith("test_inert_pickle.Stateful")
    assert vars(found["object"]) == {"size": 3}
    assert issubclass(found["call"], Inert)


@pytest.mark.filterwarnings("ignore:'torch.load' received")
def test_torch_script_is_refused_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch.load passes such a file to torch.jit.load, which runs the code in it."""
    monkeypatch.setattr(torch.jit, "load", lambda *_, **__: pytest.fail("its code would run"))
    with ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("x/version", "3")
        archive.writestr("x/constants.pkl", b"")
    refused(CheckpointError, r"x\.pt is damaged or no file of torch\.save", load, tmp_path / "x.pt")


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_and_containers_round_trip(tmp_path: Path, zipped: bool) -> None:
    weights = {
        "float": torch.randn(3, 4)[1:, ::2],
        "half": torch.ones(2, dtype=torch.float16),
        "bfloat16": torch.ones(2, dtype=torch.bfloat16),
        "whole": torch.arange(3),
        "parameter": torch.nn.Parameter(torch.zeros(2)),
    }
    stored = {"weights": weights, "others": [1, 2.5, "text", None, True, (1,), {2}, torch.float32]}
    torch.save(stored, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    found = load(tmp_path / "x.pt")
    assert found["others"] == stored["others"]
    for name, weight in weights.items():
        assert torch.equal(found["weights"][name], weight)
        assert found["weights"][name].dtype == weight.dtype


def test_list_subclass_is_loaded_with_its_items(tmp_path: Path) -> None:
    torch.save(ListSubclass([1, 2]), tmp_path / "x.pt")
    assert load(tmp_path / "x.pt").items == [1, 2]


@pytest.mark.parametrize("name", ["Lightning", "Chemformer", "OpenNMT 3.5, values"])
def test_no_reader_of_checkpoints_runs_code(tmp_path: Path, name: str) -> None:
    trap = Trap(f"touch {tmp_path / 'sprung'}")
    (tmp_path / "model").mkdir()
    for file, content in FORMATS[name]().items():
        if isinstance(content, bytes):
            (tmp_path / "model" / file).write_bytes(content)
        else:
            torch.save({"trap": trap, **content}, tmp_path / "model" / file)
    with suppress(CheckpointError):
        read(tmp_path / "model")
    torch.save({"trainer": trap}, tmp_path / "state.pt")
    refused("damaged", read_state, tmp_path / "state.pt")
    assert not (tmp_path / "sprung").exists()


_NESTED = b"\x80\x02}K\x01K\x01\x86" + b"q\x00h\x00\x86" * 40 + b"K\x01s."
_CALLS = b"c__builtin__\nset\nh\x00\x85R" * 9000
_COPIED = b"\x80\x02(lq\x00(" + b"K\x01" * 1000 + b"e0(" + _CALLS + b"l."


_DOUBLED = b"K\x01K\x01\x86" + b"q\x00h\x00\x86" * 21
_KEYS = b"\x80\x02}" + _DOUBLED + b"q\x010" + b"h\x01K\x01s" * 300 + b"."
_LONG = b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b"."
_SETS = b"\x80\x04(" + b"\x8f" * 6_000 + b"l."
_STATE = b"".join(b"X\x04\x00\x00\x00%04dK\x01" % key for key in range(3000))
_STATES = b"\x80\x02}q\x00(" + _STATE + b"u0cx\nY\n)\x81" + b"h\x00b" * 30_000 + b"."


@pytest.mark.parametrize(
    "data",
    [_NESTED, _COPIED, _KEYS, _LONG, _STATES],
    ids=["key", "copies", "keys", "bytes", "states"],
)
def test_a_text_that_would_take_for_ever_is_refused(tmp_path: Path, data: bytes) -> None:
    """The hash of a tuple that holds the same tuple twice takes twice as long, and so on."""
    refused(CheckpointError, "damaged", load, packed(tmp_path, data))


def test_containers_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(load(packed(tmp_path, _SETS))) == 6_000
    monkeypatch.setattr(inert_pickle, "_MOST_ITEMS", 5_000)
    refused(CheckpointError, "damaged", load, packed(tmp_path, _SETS))


def test_the_largest_index_of_a_memo_takes_no_memory(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), limits[1]))
    try:
        assert load(packed(tmp_path, b"\x80\x02}r\xff\xff\xff\x1f.")) == {}
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_a_tensor_larger_than_its_data_is_refused(tmp_path: Path) -> None:
    torch.save({"w": torch.as_strided(torch.ones(1), (20_000, 20_000), (0, 0))}, tmp_path / "w")
    refused(CheckpointError, "damaged", load, tmp_path / "w")


def test_a_compressed_archive_is_refused(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(1_000_000)}, tmp_path / "w")
    with (
        zipfile.ZipFile(tmp_path / "w") as read,
        zipfile.ZipFile(tmp_path / "z", "w", zipfile.ZIP_DEFLATED) as written,
    ):
        for name in read.namelist():
            written.writestr(name, read.read(name))
    refused(CheckpointError, "damaged", load, tmp_path / "z")
