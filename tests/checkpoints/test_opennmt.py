from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from molspec.checkpoints import CheckpointError, inert_pickle, read
from tests import refused
from tests.checkpoints import stored
from tests.checkpoints.damage import put


@pytest.fixture
def save(tmp_path: Path) -> Callable[[Callable[[Any], object]], Path]:
    """Writes a checkpoint of version 3.5 with a change."""
    return lambda change: stored.copy("opennmt-3.5", tmp_path, change)


def test_names_of_wrapped_modules_are_read(save: Any) -> None:
    def wrap(content: Any) -> None:
        for part in ("model", "generator"):
            content[part] = {f"module.{name}": value for name, value in content[part].items()}

    before = read(stored.FOLDER / "opennmt-3.5").fingerprint()
    assert read(save(wrap)).fingerprint() == before


def test_embeds_tokens_that_one_side_lacks() -> None:
    file = stored.file_of(stored.FOLDER / "opennmt-2.3")
    checkpoint, content = read(file), inert_pickle.load(file)
    vocabulary, source = checkpoint.vocabulary, checkpoint.weights["source_embedding"]
    embedding = content["model"]["encoder.embeddings.make_embedding.emb_luts.0.weight"]
    (only_target,), (only_source,) = vocabulary.encode("Br"), vocabulary.encode("=")
    assert torch.equal(source[only_target], embedding[0])  # OpenNMT reads it as unknown
    assert torch.equal(source[only_source], embedding[11])
    assert only_source == 12


KEY = "decoder.transformer_layers.0.context_attn.linear_keys.weight"
DAMAGE = {
    "no vocabulary": (put(None, "vocab"), "expected model, generator, vocab, opt in it"),
    "a list": (put([1], "vocab", "src"), "vocab has no list of tokens for 'src'"),
    "no BOS": (put("<go>", "vocab", "decoder_start_token"), "lacks the special tokens <go>"),
    "text": (put("?", "model", KEY), f"{KEY} is a str: expected a tensor"),
    "more": (put(torch.zeros(2), "model", "more"), "unexpected weights: more"),
    "recurrent": (put("rnn", "opt", "encoder_type"), "does not have encoder_type 'rnn'; molspec.d"),
    "alibi": (put(-2, "opt", "max_relative_positions"), "have max_relative_positions -2; molspec"),
    "a gate": (
        put(torch.zeros(12, 8), "model", "encoder.transformer.0.feed_forward.w_3.weight"),
        "missing weights: decoder.transformer_layers.0.feed_forward.w_3.weight",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_error_names_path_and_cause(save: Any, kind: str) -> None:
    change, message = DAMAGE[kind]
    file = save(change)
    refused(CheckpointError, rf"^{file}: .*{message}", read, file)


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    torch.save({"weights": torch.zeros(3)}, tmp_path / "other.pt")
    refused(CheckpointError, "not an OpenNMT-py checkpoint", read, tmp_path / "other.pt")
