"""Spec-Drafters: their guesses match PyTorch's, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from molspec.checkpoints import Checkpoint
from molspec.decoding import Path
from molspec.drafting import SpecDraft
from molspec.drafting.spec_drafter import SpecDrafterModel
from molspec.model.spec_drafter import SpecDrafterWeights
from molspec.model.transformer import Transformer
from molspec.prediction.model import Model
from molspec.training.spec_drafter import guesses
from molspec.training.spec_drafter_layout import causal
from tests import refused, tiny
from tests.engine.models import random_weights


def test_identical_drafter_guesses_next_token() -> None:
    model = Model(tiny.with_spec_drafter())
    results = model.predict(tiny.QUERIES, drafter=SpecDraft(k=1, node_budget=1), max_length=40)
    plain = model.predict(tiny.QUERIES, drafter="none", max_length=40)
    assert results.statistics.query_calls < 0.6 * plain.statistics.query_calls


def twin_log_probs(
    checkpoint: Checkpoint, source: list[int], path: list[int], k: int
) -> torch.Tensor:
    """Log-probs [place, vocab] after a path, from the training twin."""
    assert checkpoint.spec_drafter is not None
    vocabulary = checkpoint.vocabulary
    twin = Transformer(checkpoint.spec_drafter.spec, 0.0, vocabulary.pad_id).eval()
    twin.load_state_dict(dict(checkpoint.spec_drafter.weights))
    sources = torch.tensor([[vocabulary.bos_id, *source, vocabulary.eos_id]])
    # The number of tokens after the path sets the number of MASKs; the tokens are not read.
    targets = torch.tensor([[vocabulary.bos_id, *path, *[5] * k]])
    prefixes = torch.tensor([[len(path) + 1]])
    layout = causal(targets, prefixes, k, vocabulary.pad_id)
    padding = sources == vocabulary.pad_id
    with torch.inference_mode():
        rows = guesses(twin, layout, twin.encode(sources, padding), padding)[0].log_softmax(-1)
    return torch.cat([rows[len(path)][None], rows[layout.masks[0]]])


def test_guesses_match_training_twin() -> None:
    """Paths grow, branch and end; the log-probability of each node matches the twin's."""
    checkpoint = tiny.with_spec_drafter(2)
    assert checkpoint.spec_drafter is not None
    drafter_model = SpecDrafterModel(checkpoint.spec_drafter, checkpoint.vocabulary, "float32")
    drafter = drafter_model.open(
        SpecDraft(node_budget=60, min_probability=0.0), tiny.model().context.guess, 3
    )
    source = tiny.VOCABULARY.encode("CC(=O)O")
    drafter.start(7, source)
    drafter.read(7, source, source)
    paths = [[], [4], [4, 5, 6], [4, 5, 7, 8], [4, 5, 6, 4, 4], [9], [4, 5, 7, 8]]
    for batch in (*[[path] for path in paths], paths):
        trees = drafter.propose([Path(7, path, 0.0) for path in batch])
        for path, tree in zip(batch, trees, strict=True):
            rows = twin_log_probs(checkpoint, source, path, 5)
            depths: list[int] = []
            log_probs: list[float] = []
            for token_id, parent in zip(tree.token_ids, tree.parents, strict=True):
                depths.append(depths[parent] + 1 if parent >= 0 else 0)
                before = log_probs[parent] if parent >= 0 else 0.0
                log_probs.append(before + float(rows[depths[-1]][token_id]))
            assert len(tree) == 60
            assert tree.log_probs == pytest.approx(log_probs, abs=1e-3)
    blocks = drafter._paths.block_count
    for _ in range(50):
        drafter.propose([Path(7, [4, 5, 7, 8], 0.0)])
    assert drafter._paths.block_count == blocks  # the blocks of MASKs are freed


def test_source_too_long_for_drafter_is_still_answered() -> None:
    spec = replace(tiny.SPEC, max_positions=12)
    short = SpecDrafterWeights(4, spec, random_weights(spec, 3))
    model = Model(replace(tiny.checkpoint(), spec_drafter=short))
    plain = model.predict(tiny.QUERIES, drafter="none", max_length=40)
    assert model.predict(tiny.QUERIES, drafter="spec", max_length=40) == plain


def test_k_above_trained_count_is_refused() -> None:
    with pytest.raises(ValueError, match="k is 6: expected at most 5, which the drafter was"):
        Model(tiny.with_spec_drafter()).predict(["C"], drafter=SpecDraft(k=6))
    refused("k is 65: expected at most 64", SpecDrafterWeights, 65, tiny.SPEC, {})


def test_a_large_batch_drafts_for_every_query() -> None:
    model = Model(tiny.with_spec_drafter(2))
    options: dict[str, Any] = {"max_length": 2, "batch_size": 1100}
    results = model.predict(["CO"] * 1100, drafter="spec", **options)
    assert results == model.predict(["CO"] * 1100, drafter="none", **options)
