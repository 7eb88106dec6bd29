"""A training that takes a second."""

import csv
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from molspec import checkpoints
from molspec.training import TrainConfig, prepared, reactions
from molspec.training.prepared import EncodedPairs
from molspec.training.sample import FILE
from tests import tiny

CONFIG = TrainConfig(
    steps=24,
    model=(
        {"d_model": 16, "head_count": 2, "encoder_layers": 1, "decoder_layers": 1}
        | {"feed_forward": 32, "max_positions": 96}
    ),
    batch_tokens=800,
    learning_rate=1e-2,
    validate_every=8,
    validation_pairs=12,
    decoded_pairs=4,
)


def sample_reactions(count: int) -> list[str]:
    """The first reactions of the sample."""
    return [row.reaction for row in islice(reactions.read_rows(FILE), count)]


def assert_equal(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        assert torch.equal(found[name], weight), name


def write_teacher(data: Path, folder: Path) -> None:
    """Writes a random model of retro with the vocabulary of the data; some answers end."""
    vocabulary = prepared.read(data).vocabulary
    checkpoint = tiny.checkpoint(5, vocabulary)
    checkpoint.weights["output.bias"][vocabulary.eos_id] += 2
    checkpoints.write(replace(checkpoint, task="retro"), folder)


def answers() -> EncodedPairs:
    """Queries of the tiny model with its answers."""
    encode = tiny.VOCABULARY.encode
    results = tiny.model().predict(tiny.QUERIES, max_length=30)
    return EncodedPairs.pack((encode(r.query), encode(r.predictions[0].smiles)) for r in results)


def weights(output: Path) -> Mapping[str, Tensor]:
    state = torch.load(output / "state.pt", weights_only=True)
    return {**state["trainer"]["model"], **checkpoints.read(output / "model").weights}


def column(output: Path, file: str, name: str) -> list[float]:
    with (output / file).open() as stream:
        return [float(row[name]) for row in csv.DictReader(stream)]
