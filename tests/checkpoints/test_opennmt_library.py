"""Checkpoints saved by the installed OpenNMT-py; CONTRIBUTING.md says how to install it."""

from pathlib import Path
from typing import get_args

import pytest
import torch

from molspec.checkpoints import CheckpointError, read
from tests import refused
from tests.checkpoints.opennmt_library import MAJOR, Library, Shared
from tests.checkpoints.twin import twin_log_probs

SOURCE, TARGET = "C1CN1C(O)=O", "cC1(O)"


OPTIONS: dict[str, tuple[str, ...]] = {"as it is": (), "tied": ("--share_decoder_embeddings",)}
REFUSED = {"max_relative_positions 4": ("--max_relative_positions", "4")}
if MAJOR > 1:
    OPTIONS["gelu"] = ("--pos_ffn_activation_fn", "gelu")
if MAJOR == 3:
    OPTIONS["biases"] = ("--add_qkvbias", "--add_ffnbias")
    OPTIONS["another eps"] = ("--norm_eps", "1e-3")
    OPTIONS["RMS norms"] = ("--layer_norm", "rms")
    OPTIONS["gated by silu"] = ("--pos_ffn_activation_fn", "silu")
    OPTIONS["gated by gelu"] = ("--pos_ffn_activation_fn", "gated-gelu", "--add_ffnbias")
    rotary = ("--max_relative_positions", "-1")
    OPTIONS["rotary"] = rotary
    OPTIONS["rotary, pairs"] = (*rotary, "--rotary_interleave", "--add_qkvbias")
    OPTIONS["rotary in part"] = (*rotary, "--rotary_dim", "4", "--rotary_theta", "100")
    OPTIONS["rotary and added"] = (*rotary, "--position_encoding")
    REFUSED["num_kv 1"] = ("--num_kv", "1")


@pytest.mark.parametrize("shared", get_args(Shared))
@pytest.mark.parametrize("options", OPTIONS)
def test_log_probs_match_library(tmp_path: Path, options: str, shared: Shared) -> None:
    library = Library(shared, *OPTIONS[options])
    checkpoint = read(library.save(tmp_path))
    assert checkpoint.spec.shared_embedding == (shared == "embedding")
    expected, actual = library.log_probs(SOURCE, TARGET), twin_log_probs(checkpoint, SOURCE, TARGET)
    order = [checkpoint.vocabulary.tokens.index(token) for token in library.tokens("tgt")]
    torch.testing.assert_close(actual[:, order], expected, atol=2e-5, rtol=1e-5)
    assert expected.std() > 0.5


@pytest.mark.parametrize("message", REFUSED)
def test_error_names_unsupported_option(tmp_path: Path, message: str) -> None:
    file = Library("embedding", *REFUSED[message]).save(tmp_path)
    refused(CheckpointError, f"engine does not have .*{message}; molspec.decode", read, file)
