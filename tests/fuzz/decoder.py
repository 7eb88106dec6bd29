"""Requests to the decoder, in any order."""

from __future__ import annotations

from molspec import Decoder, PredictOptions
from molspec.prediction.model import Model
from molspec.prediction.results import Result
from tests import tiny
from tests.fuzz.draw import Draw

_MODEL: Model = tiny.model()
_OPTIONS = (
    PredictOptions(max_length=6),
    PredictOptions(drafter="windows", max_length=9),
    PredictOptions(n_best=3, max_length=5),
    PredictOptions(n_best=2, beam="sbs", max_length=6),
    PredictOptions(n_best=2, finished="separate", max_length=7),
    PredictOptions(augmentations=2, canonical_queries=True, max_length=4),
)


def requests(draw: Draw) -> None:
    """Submits, steps and cancels in any order: each query is answered once, as if alone."""
    decoder = Decoder(_MODEL, 1 + draw.below(4))
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
        assert answered[ticket] == next(_MODEL.predict_stream([query], options))
