import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from molspec.checkpoints import CheckpointError, read
from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary
from tests import refused
from tests.checkpoints import stored
from tests.checkpoints.damage import ABSENT, put

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes the checkpoint with a change of what it holds, and returns its folder."""
    return lambda *change: stored.copy("lightning", tmp_path / "model", *change).parent


def test_reads_sizes_and_vocabulary(save: Save, spec: ModelSpec, vocabulary: Vocabulary) -> None:
    folder = save()
    for path in (folder, folder / "model.ckpt"):
        checkpoint = read(path)
        assert (checkpoint.spec, checkpoint.vocabulary) == (spec, vocabulary)
        assert checkpoint.dtype == "float32"


@pytest.mark.parametrize(
    "wrapped",
    [
        *("module.model.", "_orig_mod.model.", "module._orig_mod.model."),
        "model._orig_mod.",  # of a part alone: `self.model = torch.compile(model)`
    ],
)
def test_names_of_wrapped_modules_are_read(save: Save, wrapped: str) -> None:
    def wrap(content: Any) -> None:
        state = content[STATE].items()
        content[STATE] = {name.replace("model.", wrapped, 1): value for name, value in state}

    assert read(save(wrap)).fingerprint() == read(save()).fingerprint()


def test_two_weights_of_one_name_are_refused(save: Save) -> None:
    twice = put(torch.ones(7, 8), STATE, SOURCE.replace("model.", "model._orig_mod."))
    refused(CheckpointError, SOURCE, read, save(twice))


STATE, SIZES = "state_dict", "hyper_parameters"
SOURCE = "model.src_token_featurizer.embedding.weight"
TARGET = "model.tgt_token_featurizer.embedding.weight"
STACKED = "model.transformer.decoder.layers.1.multihead_attn.in_proj_weight"
DAMAGE: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (put(ABSENT, STATE), "no state_dict in it: not a Lightning checkpoint"),
    (put(ABSENT, SIZES, "num_heads"), "hyper_parameters lack num_heads"),
    (put(3, SIZES, "num_encoder_layers"), "missing weights: model.transformer.encoder.layers.1."),
    (put(ABSENT, STATE, SOURCE), f"missing weights: {SOURCE}"),
    (put(torch.zeros(7), STATE, SOURCE), f"{SOURCE} has shape .*: expected a matrix"),
    (
        put(torch.zeros(25, 8), STATE, STACKED),
        rf"{STACKED} has shape \(25, 8\): expected \(24, 8\)",
    ),
    (put(torch.zeros(7, 8), STATE, TARGET), "source and target embedding differ"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_error_names_path_and_damage(
    save: Save, damage: Callable[[dict[str, Any]], None], message: str
) -> None:
    folder = save(damage)
    refused(CheckpointError, rf"^{folder}: .*{message}", read, folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"0": "<PAD>", "2": "C"}, "vocab.json: expected the ids 0 to 1 as keys"),
        ({"0": "<PAD>", "1": "<BOS>"}, r"vocab.json lacks the special tokens <EOS>, \?"),
        (["<PAD>"], "vocab.json holds a list"),
        (None, r": vocab\.json: No such file or directory$"),
    ],
)
def test_broken_vocabulary_is_refused(save: Save, content: Any, message: str) -> None:
    file = save() / "vocab.json"
    file.unlink() if content is None else file.write_text(json.dumps(content))
    refused(CheckpointError, message, read, file.with_name("model.ckpt"))


def test_folder_with_two_checkpoints_is_refused(save: Save) -> None:
    folder = save()
    (folder / "last.ckpt").write_bytes((folder / "model.ckpt").read_bytes())
    refused(
        CheckpointError,
        "has 2 checkpoints, name one or leave one: last.ckpt, model.ckpt",
        read,
        folder,
    )
    assert read(folder / "last.ckpt").spec.d_model == 8
