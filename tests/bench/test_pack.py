"""Prepared data are packed and unpacked without a change."""

import lzma
import subprocess
import sys
from pathlib import Path

from molspec import checkpoints
from molspec.checkpoints import bundled
from molspec.training import PrepareOptions, prepare, prepared
from tests.training.tiny import sample_reactions

PACK = Path(__file__).parents[2] / "bench" / "gpu" / "pack.py"


def _pack(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PACK), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _prepared(folder: Path, reactions: list[str]) -> Path:
    folder.mkdir()
    (folder / "reactions.smi").write_text("\n".join(reactions))
    (folder / "held.smi").write_text("\n".join(sample_reactions(6)))
    options = PrepareOptions("retro", variants=2)
    prepare(
        [folder / "reactions.smi"],
        folder / "data",
        options,
        validation=[folder / "held.smi"],
        vocabulary=checkpoints.read(bundled.locate("retro")).vocabulary,
    )
    return folder / "data"


def test_what_is_unpacked_is_what_was_packed(tmp_path: Path) -> None:
    reactions = sample_reactions(60)
    folders = [
        _prepared(tmp_path / "first", reactions[10:40]),
        _prepared(tmp_path / "second", reactions[40:]),
    ]
    assert _pack("make", tmp_path / "pack", *folders).returncode == 0
    assert _pack("unpack", tmp_path / "pack", tmp_path / "again").returncode == 0
    together, again = prepared.read_together(folders), prepared.read(tmp_path / "again")
    assert again.fingerprint == together.fingerprint
    assert again.train.pairs() == together.train.pairs()
    assert again.validation.pairs() == together.validation.pairs()
    assert again.description == together.description

    raw = bytearray(lzma.decompress((tmp_path / "pack").read_bytes()))
    raw[-2] ^= 1  # a token
    (tmp_path / "damaged").write_bytes(lzma.compress(bytes(raw)))
    assert "damaged" in _pack("unpack", tmp_path / "damaged", tmp_path / "none").stderr
    assert not (tmp_path / "none").exists()
