"""Checkpoints of every format: files with damaged bytes, and objects with changed values."""

import io
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from molspec.checkpoints import Checkpoint, CheckpointError, inert_pickle, read, write
from molspec.prediction.model import Model
from tests import tiny
from tests.checkpoints import stored
from tests.fuzz.draw import Draw

os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

_FOLDER = TemporaryDirectory()
#: Files of a folder: bytes, or an object for torch.save to write.
_Files = dict[str, Any]


def checkpoints(draw: Draw) -> None:
    """Files give a model that runs, or a CheckpointError that names the path."""
    files = dict(draw.choice(_TEMPLATES))
    name = draw.choice(list(files))
    content = files[name]
    if not isinstance(content, bytes):
        if draw.below(4):
            files[name] = draw.changed(content)
        else:
            files[name] = draw.damaged(_saved(content))
    elif name.endswith(".json") and draw.below(4):
        files[name] = draw.changed_json(content)
    else:
        files[name] = draw.damaged(content)
    folder = _write(files)
    try:
        checkpoint = read(folder)
    except CheckpointError as error:
        assert str(error).startswith(str(folder))
        return
    assert isinstance(checkpoint, Checkpoint)
    try:
        model = Model(checkpoint)
    except ValueError as error:  # from the n-gram model, or a feature that the engine lacks
        assert str(error)
        return
    drafters = {"heads": checkpoint.heads, "spec": checkpoint.spec_drafter}
    for drafter in ("tree", *(name for name, own in drafters.items() if own is not None)):
        model.predict(["CO"], max_length=2, drafter=drafter)


def pickles(draw: Draw) -> None:
    """Any steps of a pickle give an object or a CheckpointError, in little time and memory."""
    steps = draw.some(200, lambda: draw.choice(_STEPS))
    path = packed(Path(_FOLDER.name), b"\x80\x02" + b"".join(steps) + b".")
    with suppress(CheckpointError):
        inert_pickle.load(path)


_STEPS = (
    *(b"K\x01", b"N", b"}", b"]", b"(", b"t", b"\x85", b"\x86", b"\x87", b"u", b"s", b"e", b"a"),
    *(b"q\x00", b"h\x00", b"q\x01", b"h\x01", b"r\xff\xff\xff\x7f", b"0", b"1", b"2", b"R", b"b"),
    *(b"c__builtin__\nset\n", b"ccollections\nOrderedDict\n", b"cos\nsystem\n", b"\x81", b"Q"),
    *(b"ctorch\nSize\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"X\x01\x00\x00\x00a", b"\x90"),
)


def packed(folder: Path, data: bytes) -> Path:
    """An archive of torch.save with this pickle."""
    with zipfile.ZipFile(folder / "file", "w") as archive:
        parts = {"data.pkl": data, "version": b"3\n", "byteorder": b"little"}
        for name, content in parts.items():
            archive.writestr(f"file/{name}", content)
    return folder / "file"


def _write(files: _Files) -> Path:
    folder = Path(_FOLDER.name) / "model"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else _saved(content))
    return folder


def _saved(content: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def _molspec(checkpoint: Checkpoint | None = None) -> _Files:
    with TemporaryDirectory() as folder:
        write(checkpoint or tiny.checkpoint(), Path(folder) / "own")
        root = Path(folder) / "own"
        paths = (file for file in root.rglob("*") if file.is_file())
        return {str(file.relative_to(root)): file.read_bytes() for file in paths}


def _molspec_without_fingerprint() -> _Files:
    files = _molspec()
    files["config.json"] = re.sub(b',\n  "fingerprint": "[0-9a-f]+"', b"", files["config.json"])
    return files


def _lightning() -> _Files:
    vocabulary = (stored.FOLDER / "lightning/vocab.json").read_bytes()
    return {"model.ckpt": stored.content("lightning"), "vocab.json": vocabulary}


def _chemformer() -> _Files:
    content, name = stored.content("chemformer"), "bart_vocab.json"
    sizes = content["hyper_parameters"].items()
    plain = {name: value for name, value in sizes if isinstance(value, int | str)}
    file = {"state_dict": dict(content["state_dict"]), "hyper_parameters": plain}
    return {"model.ckpt": file, name: (stored.FOLDER / "chemformer" / name).read_bytes()}


def _opennmt(version: str) -> _Files:
    file = stored.file_of(stored.FOLDER / f"opennmt-{version}")
    return {file.name: file.read_bytes()}


def _opennmt_values() -> _Files:
    """Version 3.5, so that every value can be changed."""
    content = stored.content("opennmt-3.5")
    return {"model_step_1.pt": {**content, "model": dict(content["model"])}}


def _hugging_face(kind: str, vocabulary: str) -> _Files:
    from tests.checkpoints.test_hugging_face import write as write_folder
    from tests.drop_in.hugging_face_models import MODELS

    with TemporaryDirectory() as folder:
        write_folder(Path(folder), MODELS[kind](), vocabulary)
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def _pieces() -> _Files:
    from tests.checkpoints.test_pieces import write as write_folder

    with TemporaryDirectory() as folder:
        write_folder(Path(folder), "t5")
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


FORMATS: dict[str, Callable[[], _Files]] = {
    "own": _molspec,
    "own, no hash": _molspec_without_fingerprint,
    "draft heads": lambda: _molspec(tiny.with_heads()),
    "Spec-Drafter": lambda: _molspec(tiny.with_spec_drafter()),
    "Lightning": _lightning,
    "Chemformer": _chemformer,
    "OpenNMT 0.4.1": lambda: _opennmt("0.4.1"),
    "OpenNMT 3.5": lambda: _opennmt("3.5"),
    "OpenNMT 3.5, values": _opennmt_values,
    "BART": lambda: _hugging_face("bart", "tokenizer.json"),
    "Marian": lambda: _hugging_face("marian", "vocab.json"),
    "T5": lambda: _hugging_face("t5 v1.1", "vocab.txt"),
    "pieces": _pieces,
}
_TEMPLATES = [make() for make in FORMATS.values()]
