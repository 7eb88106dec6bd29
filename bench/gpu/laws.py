"""The laws on real queries: drafts and batches change no bit of an answer."""

import random
from collections.abc import Iterator

import subject
from place import Place, Row

from molspec.prediction.model import Model

#: (drafter, batch size) of every run that must agree with ("none", 1) with rounds on the host.
_RUNS = (
    ("none", 1),
    ("none", 32),
    ("tree", 1),
    ("tree", 7),
    ("tree", 32),
    ("windows", 1),
    ("windows", 7),
    ("windows", 32),
)


def run(place: Place, dtype: str) -> Iterator[Row]:
    """Greedy answers and log-probs by every drafter, batch size and order, on host and device."""
    checkpoint, weights = subject.checkpoint("product", place.few)
    queries = subject.queries("product", place.few, 5 if place.few else 60)
    yield {"weights": weights, "queries": len(queries)}
    options = subject.limits(place.few)
    model = place.model(checkpoint, dtype)
    yield from _greedy(model, dtype, queries, options, _RUNS[:: 3 if place.few else 1])
    yield from _beams(model, dtype, queries[: 3 if place.few else 12], options)


def _greedy(
    model: Model, dtype: str, queries: list[str], options: Row, runs: tuple[tuple[str, int], ...]
) -> Iterator[Row]:
    with subject.rounds_on_host():
        plain = model.predict(queries, drafter="none", batch_size=1, **options)
    answers = {result.query: result for result in plain}
    for drafter, batch_size in runs:
        shuffled = random.Random(batch_size).sample(queries, len(queries))
        found = model.predict(shuffled, drafter=drafter, batch_size=batch_size, **options)
        different = [result.query for result in found if result != answers[result.query]]
        yield {
            "what": f"{dtype}, {drafter}, batch {batch_size}",
            "different": different,
            "ok": not different,
            # With rounds on the device, its logarithm may draft another tree.
            "calls": found.statistics.query_calls,
            "nodes": found.statistics.nodes,
            "accepted_tokens": found.statistics.accepted_tokens,
        }


def _beams(model: Model, dtype: str, queries: list[str], options: Row) -> Iterator[Row]:
    options = {"n_best": 5, "batch_size": 4, **options}
    apart: Row = {"finished": "separate", "length_penalty": 1.0}
    with subject.rounds_on_host():
        standard = model.predict(queries, beam="standard", **options)
        standard_separate = model.predict(queries, drafter="none", **apart, **options)
    for what, more, expected in (
        ("standard beam", {"beam": "standard"}, standard),
        ("exact speculative beam", {"beam": "exact", "drafter": "tree"}, standard),
        ("beam, finished apart", {"drafter": "none", **apart}, standard_separate),
        ("exact beam, finished apart", {"drafter": "tree", **apart}, standard_separate),
    ):
        found = model.predict(queries, **more, **options)
        pairs = zip(found, expected, strict=True)
        different = [result.query for result, other in pairs if result != other]
        yield {
            "what": f"{dtype}, {what} against the host's rounds",
            "different": different,
            "ok": not different,
        }
