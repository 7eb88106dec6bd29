import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from molspec.checkpoints import CheckpointError, read
from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary
from tests.checkpoints.damage import ABSENT, put
from tests.checkpoints.paper_model import PaperModel, store
from tests.checkpoints.twin import twin_logits
from tests.refusals import refused

Save = Callable[[Any], Path]


def test_reads_sizes_and_vocabulary(
    stored: dict[str, Any], save_lightning: Save, spec: ModelSpec, vocabulary: Vocabulary
) -> None:
    folder = save_lightning(stored)
    for path in (folder, folder / "model.ckpt"):
        checkpoint = read(path)
        assert checkpoint.spec == spec
        assert checkpoint.vocabulary == vocabulary
        assert checkpoint.dtype == "float32"


def paper_logits(model: PaperModel, source_ids: torch.Tensor, target_ids: torch.Tensor) -> Any:
    """The paper's forward pass: embeddings with interleaved sinusoids, then torch's transformer."""
    width = model.transformer.d_model
    angles = torch.arange(16)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)
    source = model.src_token_featurizer["embedding"](source_ids) + table[: source_ids.shape[1]]
    target = model.tgt_token_featurizer["embedding"](target_ids) + table[: target_ids.shape[1]]
    causal = torch.nn.Transformer.generate_square_subsequent_mask(target_ids.shape[1])
    return model.next_token_classifier(model.transformer(source, target, tgt_mask=causal))


@pytest.mark.parametrize("shared", [True, False])
def test_logits_match_paper_model(spec: ModelSpec, save_lightning: Save, shared: bool) -> None:
    paper_model = PaperModel(replace(spec, shared_embedding=shared)).eval()
    stored = store(paper_model)
    if not shared:  # as is the default
        del stored["hyper_parameters"]["share_embeddings"]
    checkpoint = read(save_lightning(stored))
    assert checkpoint.spec.shared_embedding == shared
    source_ids = torch.tensor([[1, 4, 5, 6, 4, 2], [1, 6, 6, 6, 5, 2]])
    target_ids = torch.tensor([[1, 5, 4, 6], [1, 4, 4, 5]])
    with torch.no_grad():
        expected = paper_logits(paper_model, source_ids, target_ids)
    found = twin_logits(checkpoint, source_ids, target_ids)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)
    assert expected.std() > 1


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "module._orig_mod."])
def test_names_of_wrapped_modules_are_read(
    stored: dict[str, Any], save_lightning: Save, wrapper: str
) -> None:
    expected = read(save_lightning(stored)).fingerprint()
    state = stored["state_dict"]
    stored["state_dict"] = {f"{wrapper}{name}": value for name, value in state.items()}
    assert read(save_lightning(stored)).fingerprint() == expected
    # A part alone is wrapped: `self.model = torch.compile(model)`.
    stored["state_dict"] = {
        name.replace("model.", "model._orig_mod."): value for name, value in state.items()
    }
    assert read(save_lightning(stored)).fingerprint() == expected


def test_two_weights_of_one_name_are_refused(stored: dict[str, Any], save_lightning: Save) -> None:
    stored["state_dict"][SOURCE.replace("model.", "model._orig_mod.")] = torch.ones(7, 8)
    refused(CheckpointError, SOURCE, read, save_lightning(stored))


STATE, SIZES = "state_dict", "hyper_parameters"
SOURCE = "model.src_token_featurizer.embedding.weight"
TARGET = "model.tgt_token_featurizer.embedding.weight"
STACKED = "model.transformer.decoder.layers.1.multihead_attn.in_proj_weight"
DAMAGE: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (put(ABSENT, STATE), "no state_dict in it: not a Lightning checkpoint"),
    (put(ABSENT, SIZES), "no hyper_parameters in it: not a Lightning checkpoint"),
    (put(ABSENT, SIZES, "num_heads"), "hyper_parameters lack num_heads"),
    (put("8", SIZES, "embedding_dim"), "d_model is '8'"),
    (put("tanh", SIZES, "activation"), "activation is 'tanh'"),
    (put(3, SIZES, "num_encoder_layers"), "missing weights: model.transformer.encoder.layers.1."),
    (put(ABSENT, STATE, SOURCE), f"missing weights: {SOURCE}"),
    (put(torch.zeros(7), STATE, SOURCE), f"{SOURCE} has shape .*: expected a matrix"),
    (put(ABSENT, STATE, STACKED), f"missing weights: {STACKED}"),
    (put(torch.zeros(9), STATE, "model.extra"), "unexpected weights: model.extra"),
    (
        put(torch.zeros(25, 8), STATE, STACKED),
        rf"{STACKED} has shape \(25, 8\): expected \(24, 8\)",
    ),
    (put(torch.tensor(1.0), STATE, STACKED), rf"{STACKED} has shape \(\): expected \(24, 8\)"),
    (put(1.5, STATE, STACKED), f"{STACKED} is a float: expected a tensor"),
    (put(torch.full((24, 8), float("nan")), STATE, STACKED), f"{STACKED} holds NaN or infinity"),
    (put(torch.zeros(7, 8), STATE, TARGET), "source and target embedding differ"),
    (put(torch.zeros(6, 8), STATE, TARGET), "shared_embedding needs one vocabulary size"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_error_names_path_and_damage(
    stored: dict[str, Any],
    save_lightning: Save,
    damage: Callable[[dict[str, Any]], None],
    message: str,
) -> None:
    damage(stored)
    folder = save_lightning(stored)
    refused(CheckpointError, rf"^{folder}: .*{message}", read, folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"0": "<PAD>", "2": "C"}, "vocab.json: expected the ids 0 to 1 as keys"),
        ({"0": "<PAD>", "1": "<BOS>"}, r"vocab.json lacks the special tokens <EOS>, \?"),
        (["<PAD>"], "vocab.json holds a list"),
    ],
)
def test_broken_vocabulary_is_refused(
    stored: dict[str, Any], save_lightning: Save, content: Any, message: str
) -> None:
    folder = save_lightning(stored)
    (folder / "vocab.json").write_text(json.dumps(content))
    refused(CheckpointError, message, read, folder)


def test_error_names_missing_vocabulary(stored: dict[str, Any], save_lightning: Save) -> None:
    folder = save_lightning(stored)
    (folder / "vocab.json").unlink()
    with pytest.raises(CheckpointError, match=r": vocab\.json: No such file or directory$"):
        read(folder / "model.ckpt")


def test_folder_with_two_checkpoints_is_refused(
    stored: dict[str, Any], save_lightning: Save
) -> None:
    folder = save_lightning(stored)
    torch.save(stored, folder / "last.ckpt")
    refused(CheckpointError, "has 2 checkpoints, name one: last.ckpt, model.ckpt", read, folder)
    assert read(folder / "last.ckpt").spec.d_model == 8
