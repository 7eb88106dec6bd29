import pytest
import torch

from molspec.checkpoints import Checkpoint
from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary

TOKENS = ("<PAD>", "<BOS>", "<EOS>", "?", "C", "O", "c")


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS, unk_id=3)


@pytest.fixture
def spec() -> ModelSpec:
    return ModelSpec(
        source_vocab_size=len(TOKENS),
        target_vocab_size=len(TOKENS),
        d_model=8,
        head_count=2,
        encoder_layers=1,
        decoder_layers=2,
        feed_forward=12,
    )


@pytest.fixture
def checkpoint(spec: ModelSpec, vocabulary: Vocabulary) -> Checkpoint:
    generator = torch.Generator().manual_seed(1)
    weights = {n: torch.randn(s, generator=generator) for n, s in spec.weight_shapes().items()}
    return Checkpoint(spec, weights, vocabulary, ngram=b"\0\1counts", card="# A card\n")
