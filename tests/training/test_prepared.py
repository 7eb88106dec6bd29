"""Several folders of prepared data, read as one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from molspec.model.spec import ModelSpec
from molspec.training import PrepareOptions, Validation, card, prepare
from molspec.training.prepared import Prepared, read, read_together
from tests import refused
from tests.training.tiny import sample_reactions

RETRO = PrepareOptions("retro", variants=2)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files and folders `first` and `second` with one vocabulary and one validation file."""
    folder = tmp_path_factory.mktemp("parts")
    rows = sample_reactions(80)
    for name, part in (
        ("validation", rows[:10]),
        ("first", rows[10:50]),
        ("second", rows[50:]),
        ("careless", rows[5:50]),
        ("everything", rows[10:]),
    ):
        (folder / f"{name}.smi").write_text("\n".join(part))
    everything = prepare_part(folder, "everything")
    for name in ("first", "second"):
        prepare_part(folder, name, vocabulary=everything.vocabulary)
    return folder


def prepare_part(folder: Path, name: str, **options: object) -> Prepared:
    options = {"validation": [folder / "validation.smi"], **options}
    file = folder / f"{name}.smi"
    return prepare([file], folder / name, RETRO, **options)  # type: ignore[arg-type]


def test_training_pairs_are_joined_and_the_first_validation_is_used(parts: Path) -> None:
    first, second = read(parts / "first"), read(parts / "second")
    together = read_together([parts / "first", parts / "second"])
    assert together.train.pairs() == first.train.pairs() + second.train.pairs()
    assert together.validation.pairs() == first.validation.pairs()
    counts = together.description["train"]
    assert counts["pairs"] == len(together.train)
    assert counts["tokens"] == len(together.train.source_ids) + len(together.train.target_ids)
    assert counts["longest_source"] == int(together.train.source_lengths.max())
    assert together.description["files"] == ["first.smi", "second.smi"]
    assert torch.equal(read_together([parts / "first"]).train.source_ids, first.train.source_ids)
    assert read_together([parts / "first"]).fingerprint == first.fingerprint
    assert together.fingerprint != first.fingerprint


def test_card_names_the_judge_of_each_folder() -> None:
    counts = {"reactions": 9, "pairs": 9}
    judges = [{"name": name, "kept": 8, "reactions": 9} for name in ("first", "second")]
    data = {"task": "retro", "files": [], "validation_files": [], "validation": counts}
    parts = [{**data, "train": counts, "judge": judge} for judge in judges]
    numbers = {"minutes": 1.0, "step": 1.0, "tokens": 1.0}
    best = Validation(1.0, 0.5, 0.5)
    alone, both = (
        card.write_card("model", ModelSpec(9, 9), {**parts[0], **more}, numbers, best, None)
        for more in ({}, {"parts": parts})
    )
    assert "| Judge | first: kept 8 of 9 reactions |" in alone
    assert "reactions; second: kept 8 of 9 reactions |" in both


def test_incompatible_folders_are_refused(parts: Path) -> None:
    first = parts / "first"
    shared = {"validation": (), "vocabulary": read(first).vocabulary}
    prepare_part(parts, "careless", **shared)
    refused(r"careless: \d of its training pairs", read_together, [first, parts / "careless"])
    (parts / "own.smi").write_text((parts / "second.smi").read_text())
    prepare_part(parts, "own")
    refused("own: its vocabulary", read_together, [first, parts / "own"])
    validation, forward = [parts / "validation.smi"], PrepareOptions("product")
    prepare([parts / "second.smi"], parts / "forward", forward, validation=validation)
    refused("forward: its task", read_together, [first, parts / "forward"])
    refused("folders is empty", read_together, [])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda ids: ids.float(), "sources are not integers"),
        (lambda ids: ids + 5000, "source_ids are not all 0 to"),
        (lambda ids: ids[:-1], "source_lengths do not add up to source_ids"),
    ],
)
def test_damaged_tables_are_refused(parts: Path, damage: Any, message: str) -> None:
    file = parts / "first" / "train.safetensors"
    written = file.read_bytes()
    table = load(written)
    try:
        file.write_bytes(save({**table, "source_ids": damage(table["source_ids"])}))
        refused(f"train.safetensors is damaged: .*{message}", read, parts / "first")
    finally:
        file.write_bytes(written)
