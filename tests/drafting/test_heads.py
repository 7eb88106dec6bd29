"""Draft heads: what they read, how they are stored, and what is refused."""

from pathlib import Path as FilePath

import torch

import molspec
from molspec import checkpoints
from molspec.drafting import ModelDraft
from tests import refused, tiny
from tests.drafting.drafters import ReadsHiddenStates


def test_hidden_state_predicts_last_token() -> None:
    drafter, weights = ReadsHiddenStates(), tiny.checkpoint().weights
    for batch_size in (1, 4):
        tiny.model().predict(tiny.QUERIES, drafter=drafter, batch_size=batch_size, max_length=30)
    assert len(drafter.paths) > 100
    for path in drafter.paths:
        assert (path.hidden_state is None) == (not path.token_ids)
        if path.hidden_state is not None:
            output = weights["output.weight"], weights["output.bias"]
            logits = torch.nn.functional.linear(path.hidden_state, *output)
            assert int(logits.argmax()) == path.token_ids[-1]


def test_a_draft_model_gives_no_hidden_states(tmp_path: FilePath) -> None:
    checkpoints.write(tiny.checkpoint(), tmp_path / "small")
    drafter = ModelDraft(tmp_path / "small", drafter=ReadsHiddenStates())
    refused("one that needs no hidden states", tiny.model().predict, ["CC"], drafter=drafter)


SPECIAL = {f"{kind}_id": getattr(tiny.VOCABULARY, f"{kind}_id") for kind in ("bos", "eos", "pad")}


def test_callables_have_no_heads_or_hidden_states() -> None:
    def encode(source_ids: torch.Tensor) -> torch.Tensor:
        return torch.zeros(*source_ids.shape, 4)

    def decode(target_ids: torch.Tensor, *_: object) -> torch.Tensor:
        return torch.zeros(*target_ids.shape, len(tiny.TOKENS))

    source = [tiny.VOCABULARY.bos_id, *tiny.VOCABULARY.encode("CC"), tiny.VOCABULARY.eos_id]
    for drafter, message in (("heads", "no draft heads"), (ReadsHiddenStates(), "own engine")):
        options = {"max_length": 5, "drafter": drafter, **SPECIAL}
        refused(message, molspec.decode, (encode, decode), [source], **options)
