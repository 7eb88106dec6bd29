"""Tiny random models of SMILES tokens: vocabulary, weights and predictor."""

from dataclasses import replace
from typing import Any

import torch

from molspec.checkpoints import Checkpoint
from molspec.drafting import build_ngram
from molspec.model.heads import HeadsWeights, new_heads
from molspec.model.spec import HeadsSpec, ModelSpec
from molspec.model.spec_drafter import SpecDrafterWeights
from molspec.prediction.config import DecodeConfig, Identity
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import Prediction, Results
from molspec.text import Vocabulary
from tests.engine.models import random_weights

TOKENS = ("<pad>", "<bos>", "<eos>", "?", "C", "c", "N", "O", "(", ")", "1", "2", "=")
VOCABULARY = Vocabulary(TOKENS, unk_id=3)
SPEC = ModelSpec(
    len(TOKENS),
    len(TOKENS),
    d_model=32,
    head_count=2,
    encoder_layers=1,
    decoder_layers=2,
    feed_forward=48,
    max_positions=256,
)

HEADS = HeadsSpec("low-rank", 5, 8)

QUERIES = (
    *("CCO", "C", "c1ccccc1", "CC(=O)O", "c1ccc2c(c1)CCN2", "N", "CC(C)(C)OC(=O)N1CCC(CC1)C(=O)O"),
    *("O=C(O)c1ccccc1", "CCOCCOCCOCCOCC", "C" * 200),
)


def checkpoint(seed: int = 1, vocabulary: Vocabulary = VOCABULARY, **changes: Any) -> Checkpoint:
    """Random weights with large attention and embeddings, so that answers differ by query.

    changes: of the spec.
    """
    size = vocabulary.size
    spec = replace(SPEC, source_vocab_size=size, target_vocab_size=size, **changes)
    weights = random_weights(spec, seed)
    for name in weights:
        if "query.weight" in name:
            weights[name] = 8 * weights[name]
    weights["source_embedding"] = 5 * weights["source_embedding"]
    weights["output.weight"] = 2 * weights["output.weight"]
    for special_id in vocabulary.special_ids:
        if special_id != vocabulary.eos_id:
            weights["output.bias"][special_id] -= 8
    return Checkpoint(spec, weights, vocabulary)


def model(seed: int = 1, dtype: str = "float32") -> Model:
    return Model(checkpoint(seed), dtype)


def others() -> tuple[Checkpoint, ...]:
    """Models of other sizes and architectures that may be averaged with the tiny ones."""
    wide: dict[str, Any] = {"d_model": 48, "head_count": 3, "norm": "pre", "max_positions": 300}
    rms: dict[str, Any] = {"decoder_layers": 1, "norm_kind": "rms", "positions": "learned"}
    rms["gated"] = True
    return checkpoint(4, **wide), checkpoint(5, **rms)


def config(options: PredictOptions, weights: str = "f00d", device: str = "cpu") -> DecodeConfig:
    """Options, resolved for a model of these weights that decodes canonical queries."""
    return DecodeConfig(options, Identity(weights, device), True, SPEC.max_positions)


def with_spec_drafter(seed: int = 1, k: int = 5) -> Checkpoint:
    """The tiny model, with the tiny model of this seed as its Spec-Drafter."""
    drafter = SpecDrafterWeights(k, SPEC, checkpoint(seed).weights)
    return replace(checkpoint(), spec_drafter=drafter)


def finished_answers(results: Results) -> list[tuple[str, Prediction]]:
    """Every finished answer that is not empty, with its query."""
    return [
        (result.query, prediction)
        for result in results
        for prediction in result.predictions
        if prediction.finished and prediction.smiles
    ]


def with_heads(spec: HeadsSpec = HEADS, seed: int = 0) -> Checkpoint:
    """The tiny model with heads of large random weights."""
    torch.manual_seed(seed)
    base = checkpoint()
    heads = new_heads(spec, base.spec, base.weights)
    weights = {name: torch.randn_like(weight) for name, weight in heads.state_dict().items()}
    return replace(base, heads=HeadsWeights(spec, weights))


def ngram(rewrites: bool = False) -> bytes:
    """An n-gram model of the queries, so that some drafts are accepted."""
    sources = [VOCABULARY.encode(query) for query in QUERIES]
    pairs = list(zip(sources, sources, strict=True))
    return build_ngram(VOCABULARY, pairs, min_gain=0.0, rewrites=rewrites)


def drafting_model(dtype: str = "float32", rewrites: bool = False) -> Model:
    return Model(replace(checkpoint(), ngram=ngram(rewrites)), dtype)
