"""Queries from text to answers or an error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from molspec.prediction.model import Model
from tests import tiny
from tests.fuzz.draw import Draw

_MODELS = [
    Model(replace(tiny.checkpoint(), canonical_queries=canonical)) for canonical in (False, True)
]


def queries(draw: Draw) -> None:
    """Only bad queries fail, and no answer depends on the other queries."""
    model = draw.choice(_MODELS)
    n_best = 1 + draw.below(3)
    drafters = (None, "none", "tree", *(["windows"] if n_best == 1 else []))
    options: dict[str, Any] = {
        "n_best": n_best,
        "drafter": draw.choice(drafters),
        "max_length": 1 + draw.below(12),
    }
    if model.canonical_queries:
        options["augmentations"] = 1 + draw.below(3)
        if options["augmentations"] > 1:
            options["augment_below"] = draw.choice((None, 0.01, 0.5))
    texts = draw.some(3, lambda: draw.text(20))
    batched = model.predict(texts, batch_size=1 + draw.below(4), **options)
    assert len(batched) == len(texts)
    for text, result in zip(texts, batched, strict=True):
        assert (result.error is None) == bool(result.predictions)
        (single,) = model.predict([text], **options)
        assert (single.predictions, single.error) == (result.predictions, result.error)
