"""Checkpoints that the installed OpenNMT-py saves; CONTRIBUTING.md says how to install which."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import torch

from molspec import load
from molspec.checkpoints import CheckpointError, read
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
    REFUSED["max_relative_positions -1"] = ("--max_relative_positions", "-1")
    REFUSED["num_kv 1"] = ("--num_kv", "1")


@pytest.mark.parametrize("shared", get_args(Shared))
@pytest.mark.parametrize("options", OPTIONS)
def test_the_log_probs_are_the_librarys(tmp_path: Path, options: str, shared: Shared) -> None:
    library = Library(shared, *OPTIONS[options])
    checkpoint = read(library.save(tmp_path))
    assert checkpoint.spec.shared_embedding == (shared == "embedding")
    own, ours = library.log_probs(SOURCE, TARGET), twin_log_probs(checkpoint, SOURCE, TARGET)
    order = [checkpoint.vocabulary.tokens.index(token) for token in library.tokens("tgt")]
    torch.testing.assert_close(ours[:, order], own, atol=2e-5, rtol=1e-5)
    assert own.std() > 0.5


@pytest.mark.parametrize("message", REFUSED)
def test_what_the_engine_does_not_have_is_named(tmp_path: Path, message: str) -> None:
    file = Library("embedding", *REFUSED[message]).save(tmp_path)
    with pytest.raises(CheckpointError, match=f"engine does not have .*{message}; molspec.decode"):
        read(file)


def test_greedy_answers_are_the_librarys(tmp_path: Path) -> None:
    answers = set()
    for seed in range(8):
        library = Library("nothing", seed=seed)
        (result,) = load(library.save(tmp_path)).predict([SOURCE], max_length=9)
        own: list[str] = []
        while len(own) < 9 and "</s>" not in own:
            behind = library.log_probs(SOURCE, own)[-1]
            own.append(library.tokens("tgt")[int(behind.argmax())])
        silent = ("<s>", "<blank>", "</s>")
        answer = "".join(token for token in own if token not in silent)
        assert result.predictions[0].smiles == answer
        answers.add(answer)
    assert len(answers) > 3
