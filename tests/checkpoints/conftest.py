from dataclasses import replace

import pytest
import torch

from molspec.checkpoints import Checkpoint
from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary
from tests import tiny

TOKENS = ("<PAD>", "<BOS>", "<EOS>", "?", "C", "O", "c")


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS, unk_id=3)


@pytest.fixture
def spec() -> ModelSpec:
    sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), len(TOKENS))
    return replace(tiny.SPEC, **sizes, d_model=8, feed_forward=12, max_positions=512)


@pytest.fixture
def checkpoint(spec: ModelSpec, vocabulary: Vocabulary) -> Checkpoint:
    generator = torch.Generator().manual_seed(1)
    weights = {n: torch.randn(s, generator=generator) for n, s in spec.weight_shapes().items()}
    return Checkpoint(spec, weights, vocabulary, ngram=b"\0\1counts", card="# A card\n")
