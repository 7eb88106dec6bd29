"""Queries from text to answers or an error, in batches and as requests in any order."""

from dataclasses import replace
from typing import Any

from molspec import Decoder, PredictOptions
from molspec.prediction.model import Model
from molspec.prediction.results import Result
from tests import tiny
from tests.fuzz.draw import Draw

_MODELS = [Model(replace(tiny.checkpoint(), canonical_queries=c)) for c in (False, True)]


_OPTIONS = (
    PredictOptions(max_length=6),
    PredictOptions(drafter="windows", max_length=9),
    PredictOptions(n_best=3, max_length=5),
    PredictOptions(n_best=2, beam="sbs", max_length=6),
    PredictOptions(n_best=2, finished="separate", max_length=7),
    PredictOptions(augmentations=2, canonical_queries=True, max_length=4),
)


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


def requests(draw: Draw) -> None:
    """Submits, steps and cancels in any order: each query is answered once, as if alone."""
    decoder = Decoder(_MODELS[0], 1 + draw.below(4))
    submitted: dict[int, tuple[str, PredictOptions]] = {}
    answered: dict[int, Result] = {}
    for _ in range(draw.below(24)):
        kind = draw.below(4)
        if kind < 2:
            query = draw.choice(tiny.QUERIES) if draw.below(4) else draw.text(8)
            options = draw.choice(_OPTIONS)
            submitted[decoder.submit(query, options)] = query, options
        elif kind == 2:
            answered.update(decoder.step())
        elif pending := [ticket for ticket in submitted if ticket not in answered]:
            ticket = draw.choice(pending)
            decoder.cancel(ticket)
            del submitted[ticket]
    while decoder.live_count:
        answered.update(decoder.step())
    assert answered.keys() == submitted.keys()
    for ticket, (query, options) in submitted.items():
        assert answered[ticket] == next(_MODELS[0].predict_stream([query], options))
