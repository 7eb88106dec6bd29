"""The measured model: a bundled one, or random weights of its shape if its weights are missing."""

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.campaigns.shapes import PAPERS_UNITS, widened
from tests import tiny

from molspec import checkpoints
from molspec.checkpoints import Checkpoint, CheckpointError
from molspec.checkpoints.bundled import locate
from molspec.engine.cuda.session import CudaSession
from molspec.model.spec import ModelSpec
from molspec.model.transformer import Transformer
from molspec.text import Vocabulary


def checkpoint(name: str, few: bool) -> tuple[Checkpoint, str]:
    """A model's checkpoint and the origin of its weights; RDKit does not canonicalise queries."""
    if few:
        return tiny.checkpoint(), "random, tiny"
    try:
        return replace(checkpoints.read(locate(name)), canonical_queries=False), "trained"
    except CheckpointError:
        folder = locate(name)
        spec = ModelSpec.from_json(json.loads((folder / "config.json").read_text())["spec"])
        vocabulary = Vocabulary.from_json(json.loads((folder / "vocabulary.json").read_text()))
        twin = Transformer(spec, dropout=0.0, pad_id=vocabulary.pad_id)
        return Checkpoint(spec, twin.state_dict(), vocabulary), "random"


def padded(subject: Checkpoint) -> Checkpoint:
    """The same function with the paper's feed-forward size."""
    return widened(subject, max(PAPERS_UNITS, subject.spec.feed_forward))


def queries(name: str, few: bool, count: int) -> list[str]:
    """So many queries of a model, evenly spread over the real ones, or these again and again.

    The real ones are 128 reactants and reagents of USPTO-MIT's test set for "product", and 64
    products of USPTO-50K's for "retro", canonical, evenly spread over those that the vocabularies
    have.
    """
    real = json.loads((Path(__file__).parent / "queries.json").read_text())
    found: list[str] = list(tiny.QUERIES[:-1]) if few else real[name]
    step = max(1.0, len(found) / count)
    return [found[int(i * step) % len(found)] for i in range(count)]


def limits(few: bool) -> dict[str, Any]:
    """The options that keep a trial short."""
    return {"max_length": 5} if few else {}


def rounds_on_host() -> AbstractContextManager[object]:
    """Let the host draft and select between steps, as on the CPU."""
    return patch.object(CudaSession, "executor", return_value=None)
