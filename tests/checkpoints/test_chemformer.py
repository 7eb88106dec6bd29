import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from molspec.checkpoints import CheckpointError, convert, read
from tests.checkpoints.chemformer_model import MAX_LENGTH, TOKENS, VOCABULARIES, Chemformer, store
from tests.checkpoints.damage import ABSENT, put
from tests.checkpoints.twin import twin_logits
from tests.refusals import refused


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    def save(
        model: Chemformer, vocabulary: str = "bart_vocab.json", change: Any = lambda _: None
    ) -> Path:
        (tmp_path / vocabulary).write_text(VOCABULARIES[vocabulary])
        with pytest.MonkeyPatch.context() as monkeypatch:
            stored = store(model, monkeypatch)
            change(stored)
            torch.save(stored, tmp_path / "model.ckpt")
        return tmp_path

    return save


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_logits_match_chemformer(save: Any, vocabulary: str) -> None:
    model = Chemformer().eval()
    folder = save(model, vocabulary)
    checkpoint = read(folder / "model.ckpt")
    assert checkpoint.vocabulary.tokens == TOKENS
    assert checkpoint.vocabulary.special_ids == (0, 2, 3, 1)
    assert checkpoint.spec.max_positions == MAX_LENGTH
    source = torch.tensor([[2, *checkpoint.vocabulary.encode("Cc1O(N)"), 3]])
    target = torch.tensor([[2, *checkpoint.vocabulary.encode("N(Cc)O")]])
    with torch.no_grad():
        expected = model(source.T, target.T)[:, 0]
    found = twin_logits(checkpoint, source, target)[0]
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-5)
    assert expected.std() > 1
    assert read(folder).spec == checkpoint.spec


DAMAGE = {
    "no state_dict in it: not a Chemformer": ("state_dict",),
    "missing weights: pos_emb": ("state_dict", "pos_emb"),
    "hyper_parameters lack num_heads": ("hyper_parameters", "num_heads"),
    "missing weights: decoder.layers.1.norm3.bias": ("state_dict", "decoder.layers.1.norm3.bias"),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_error_names_folder_and_what_is_missing(save: Any, message: str) -> None:
    folder = save(Chemformer(), change=put(ABSENT, *DAMAGE[message]))
    refused(CheckpointError, rf"^{folder}: {message}", read, folder)


def test_refuses_two_vocabularies_and_missing_special_tokens(save: Any) -> None:
    save(Chemformer(), "bart_vocab.txt")
    folder = save(Chemformer())
    message = r"has 2 vocabularies; molspec convert --vocabulary names one: bart_vocab.json, bart"
    refused(CheckpointError, message, read, folder)
    for number, name in enumerate(VOCABULARIES):
        converted = convert(folder, folder / str(number), vocabulary=folder / name)
        assert read(folder / str(number)).vocabulary.tokens == converted.vocabulary.tokens == TOKENS
    with pytest.raises(CheckpointError, match="expected a Chemformer"):
        read(folder / "0", folder / "bart_vocab.json")
    (folder / "empty.json").write_text("{}")
    refused(CheckpointError, "empty.json", read, folder, folder / "empty.json")
    refused(CheckpointError, r"other\.txt: No such file", read, folder, folder / "other.txt")
    (folder / "bart_vocab.txt").unlink()
    (folder / "bart_vocab.json").write_text(json.dumps({"vocabulary": ["<PAD>", "C"]}))
    refused(CheckpointError, r"bart_vocab.json lacks the special tokens \^, &, ", read, folder)
