"""Checks searches of a tiny model: rounds on the device against rounds on the host."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import subject
from checks import dense as check_dense, engine_batch, on_device, wide
from place import Place, Row
from tests import tiny

from molspec import drafting
from molspec.checkpoints import Checkpoint
from molspec.prediction.model import Model

Options = dict[str, Any]
GREEDY: dict[str, Options] = {
    "no drafts": {"drafter": "none"},
    "tree": {"drafter": "tree"},
    "log-probs of tokens": {"drafter": "tree", "token_log_probs": True},
    "at least four tokens": {"drafter": "tree", "min_length": 4},
}
_APART: Options = {"n_best": 2, "finished": "separate"}
BEAMS: dict[str, Options] = {
    "standard": {"beam": "standard", "n_best": 3},
    "with a lookahead": {"drafter": "tree", "n_best": 3},
    "finished apart": {"drafter": "none", **_APART},
    "finished apart, with a lookahead": {"drafter": "tree", **_APART},
    "log-probs of tokens": {"n_best": 3, "token_log_probs": True},
    "at least four tokens": {"n_best": 3, "min_length": 4},
}
#: Options of searches whose rounds run on the host and read the device's results.
HOST: dict[str, Options] = {
    "windows": {"drafter": "windows"},
    "heads": {"drafter": "heads"},
    "SBS": {"beam": "sbs", "n_best": 2},
    "relaxed": {"verification": "relaxed"},
    "samples": {"samples": 3, "seed": 1},
    "a given prefix": {"n_best": 3, "target_prefix": "CC"},
}


def _checkpoint() -> Checkpoint:
    """The tiny model with draft heads and an n-gram model, which guesses need."""
    sources = [tiny.VOCABULARY.encode(query) for query in tiny.QUERIES]
    pairs = list(zip(sources, sources, strict=True))
    ngram = drafting.build_ngram(tiny.VOCABULARY, pairs, min_gain=0.0, rewrites=True)
    return replace(tiny.with_heads(), ngram=ngram)


def device_rounds(place: Place, searches: dict[str, Options]) -> Iterator[Row]:
    """The answers of rounds on the device, for every batch size, against those on the host."""
    for dtype in ("float32", "bfloat16"):
        model = place.model(_checkpoint(), dtype, eager=True)
        queries = tiny.QUERIES[: 3 if place.few else None]
        limits: dict[str, Any] = {"max_length": 5 if place.few else 24}
        for name, options in searches.items():
            with subject.rounds_on_host():
                expected = model.predict(queries, batch_size=4, **limits, **options)
            for batch_size in (2,) if place.few else (1, 3, 16):
                found = model.predict(queries, batch_size=batch_size, **limits, **options)
                yield _same(f"{name}, {dtype}, batch {batch_size}", found, expected)


def host_rounds(place: Place) -> Iterator[Row]:
    """Searches with rounds on the host: each query alone, and in a batch."""
    model = place.model(_checkpoint(), "float32", eager=True)
    for name, options in HOST.items():
        together = model.predict(tiny.QUERIES[:3], max_length=20, **options)
        alone = [model.predict([query], max_length=20, **options)[0] for query in tiny.QUERIES[:3]]
        yield _same(f"{name}, alone and in a batch", together, alone)


def ensembles(place: Place) -> Iterator[Row]:
    """Two models as one on the device: each query alone and in a batch, and on the CPU."""
    checkpoints = tiny.checkpoint(1), [tiny.checkpoint(2)]
    there, here = (Model(checkpoints[0], "float32", device, checkpoints[1])
                   for device in (place.tensors, "cpu"))  # fmt: skip
    for name, options in {**GREEDY, **BEAMS, **HOST}.items():
        if name == "heads":  # the tiny model has none
            continue
        limits = {"max_length": 20, **options}
        together = there.predict(tiny.QUERIES, batch_size=4, **limits)
        alone = there.predict(tiny.QUERIES, batch_size=1, **limits)
        yield _same(f"{name}, alone and in a batch", together, alone)
        expected = here.predict(tiny.QUERIES, **limits)
        yield {"what": f"{name}, as on the CPU", "ok": _texts(together) == _texts(expected)}


def _texts(results: Any) -> list[list[str]]:
    return [[each.smiles for each in result.predictions] for result in results]


def _same(what: str, found: Any, expected: Any) -> Row:
    pairs = zip(found, expected, strict=True)
    different = [
        {"query": a.query, "actual": _told(a), "expected": _told(b)}
        for a, b in pairs
        if a.predictions != b.predictions or a.error
    ]
    row: Row = {"what": what, "different": len(different), "ok": not different}
    if different:
        row["first_wrong"] = different[0]
    return row


def _told(result: Any) -> str:
    return result.error or "; ".join(f"{p.smiles} {p.log_prob!r}" for p in result.predictions)


def small(place: Place) -> Iterator[Row]:
    """One call of every kernel, for compute-sanitizer."""
    yield from check_dense(place)
    yield from small_engine(place)
    if place.few:
        yield from wide(place, "bfloat16")
    else:
        yield from _wide_alone(place)
    yield from small_rounds(place)


def small_engine(place: Place) -> Iterator[Row]:
    """A few nodes of models that together call every narrow kernel of the engine."""
    for convention in ("pre-norm", "std norm", "rotary and added positions"):
        for dtype in ("float32", "bfloat16"):
            log_probs = on_device(engine_batch(convention, dtype, 20), place)
            yield {"what": f"{convention}, {dtype}", "ok": bool(log_probs.isfinite().all())}


def small_rounds(place: Place) -> Iterator[Row]:
    """Every search for five tokens."""
    model = place.model(_checkpoint(), "float32", eager=True)
    for options in _every_search():
        rounds = model.predict(tiny.QUERIES[:3], batch_size=2, max_length=5, **options)
        yield {"what": f"rounds, {options}", "ok": not any(r.error for r in rounds)}


def _wide_alone(place: Place) -> Iterator[Row]:
    """The wide kernels once: under a sanitizer a second of them takes a minute."""
    for dtype in ("float32", "bfloat16"):
        batch = engine_batch("whole panels", dtype, 4300)
        yield {"what": f"4300 nodes, {dtype}", "ok": bool(on_device(batch, place).isfinite().all())}


def _every_search() -> Iterator[Options]:
    for searches in (GREEDY, BEAMS, HOST):
        yield from searches.values()
