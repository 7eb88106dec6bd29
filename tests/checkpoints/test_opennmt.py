from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from molspec import load
from molspec.checkpoints import CheckpointError, read
from tests.checkpoints import opennmt_model
from tests.checkpoints.damage import put
from tests.checkpoints.opennmt_model import OpenNMT, store
from tests.checkpoints.twin import twin_log_probs
from tests.refusals import refused

VERSIONS = ("0.4.1", "2.3", "3.5", "3.5, gated and RMS", "3.5, rotary")
SOURCE, TARGET = "CcON1()", "cC1(O)"


@pytest.fixture
def save(tmp_path: Path) -> Callable[[OpenNMT], Path]:
    """Writes a model as its version does; torchtext is absent when the file is read."""

    def save(model: OpenNMT, change: Callable[[Any], object] = lambda _: None) -> Path:
        with pytest.MonkeyPatch.context() as monkeypatch:
            stored = store(model, monkeypatch)
            change(stored)
            legacy = model.version == "0.4.1"
            file = tmp_path / "model_step_1.pt"
            torch.save(stored, file, _use_new_zipfile_serialization=not legacy)
        return file

    return save


def opennmt_log_probs(model: OpenNMT) -> Tensor:
    source = torch.tensor([[model.source.index(token) for token in SOURCE]])
    target = torch.tensor([[2, *(model.target.index(token) for token in TARGET)]])
    with torch.no_grad():
        return model(source, target)[0]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_log_probs_match_opennmt(save: Any, version: str, shared: bool) -> None:
    model = OpenNMT(version, shared)
    checkpoint = read(save(model))
    assert checkpoint.spec.shared_embedding == shared
    expected, actual = opennmt_log_probs(model), twin_log_probs(checkpoint, SOURCE, TARGET)
    target_count = len(model.target)
    torch.testing.assert_close(actual[:, :target_count], expected, atol=1e-5, rtol=1e-5)
    assert not actual[:, target_count:].exp().any()
    assert expected.std() > 0.5
    assert checkpoint.vocabulary.tokens[:target_count] == model.target


def test_names_of_wrapped_modules_are_read(save: Any) -> None:
    model = OpenNMT("2.3", shared=True)

    def wrap(stored: Any) -> None:
        for part in ("model", "generator"):
            stored[part] = {f"module.{name}": value for name, value in stored[part].items()}

    assert read(save(model, wrap)).fingerprint() == read(save(model)).fingerprint()


def test_classes_of_the_source_are_read(save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opennmt_model, "SHARED", (*opennmt_model.SHARED, "<RX_3>"))
    model = OpenNMT("2.3", shared=False)
    reader = load(save(model)).reader
    words = "<RX_3> C C O"
    expected = [reader.vocabulary.tokens.index(word) for word in words.split()]
    for query in (words, "<RX_3>CCO", "<RX_3> CCO"):
        assert reader.source(query).token_ids == expected


def test_reads_model_without_biases(save: Any) -> None:
    model = OpenNMT("3.5", shared=True, bias=False)
    checkpoint = read(save(model))
    torch.testing.assert_close(
        twin_log_probs(checkpoint, SOURCE, TARGET), opennmt_log_probs(model), atol=1e-5, rtol=1e-5
    )


def test_embeds_tokens_that_one_side_lacks(save: Any) -> None:
    model = OpenNMT("2.3", shared=False)
    checkpoint = read(save(model))
    vocabulary, source = checkpoint.vocabulary, checkpoint.weights["source_embedding"]
    embedding = model.encoder.embeddings.make_embedding.emb_luts[0].weight
    (only_target,), (only_source,) = vocabulary.encode("Br"), vocabulary.encode("=")
    assert torch.equal(source[only_target], embedding[0])  # OpenNMT reads it as unknown
    assert torch.equal(source[only_source], embedding[model.source.index("=")])
    assert only_source == len(model.target)


KEY = "decoder.transformer_layers.0.context_attn.linear_keys.weight"
DAMAGE = {
    "no vocabulary": (put(None, "vocab"), "expected model, generator, vocab, opt in it"),
    "a list": (put([1], "vocab", "src"), "vocab has no list of tokens for 'src'"),
    "no BOS": (put("<go>", "vocab", "decoder_start_token"), "lacks the special tokens <go>"),
    "a shape": (put(torch.zeros(3, 8), "model", KEY), rf"{KEY} has shape \(3, 8\): expected"),
    "text": (put("?", "model", KEY), f"{KEY} is a str: expected a tensor"),
    "more": (put(torch.zeros(2), "model", "more"), "unexpected weights: more"),
    "recurrent": (put("rnn", "opt", "encoder_type"), "does not have encoder_type 'rnn'; molspec.d"),
    "alibi": (put(-2, "opt", "max_relative_positions"), "have max_relative_positions -2; molspec"),
    "norm": (put("amp", "opt", "layer_norm"), "does not have layer_norm 'amp'; molspec.decode"),
    "a gate": (
        put(torch.zeros(12, 8), "model", "encoder.transformer.0.feed_forward.w_3.weight"),
        "missing weights: decoder.transformer_layers.0.feed_forward.w_3.weight",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_error_names_path_and_cause(save: Any, kind: str) -> None:
    change, message = DAMAGE[kind]
    file = save(OpenNMT("3.5", shared=True), change)
    refused(CheckpointError, rf"^{file}: .*{message}", read, file)


def test_refuses_foreign_file_and_folder_with_two_checkpoints(tmp_path: Path) -> None:
    torch.save({"weights": torch.zeros(3)}, tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match=r"other\.pt: not an OpenNMT-py checkpoint"):
        read(tmp_path / "other.pt")
    torch.save({}, tmp_path / "more.pt")
    refused(CheckpointError, r"has 2 checkpoints, name one: more.pt, other.pt", read, tmp_path)
