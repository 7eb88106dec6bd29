"""The laws on real queries: drafts and batches change no bit of an answer."""

from __future__ import annotations

import random
from typing import Any

import subject

from molspec.predictor import Model

#: (drafter, batch size) of every run that must agree with ("none", 1) decoded by the host's rounds.
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


def run(device: str, few: bool) -> dict[str, Any]:
    """Greedy answers and log-probs by every drafter, batch size and order, on host and device."""
    checkpoint, weights = subject.checkpoint("product", few)
    queries = subject.queries(checkpoint, 5 if few else 60)
    dtypes = ("float32", "bfloat16") + (() if device == "cpu" else ("float16",))
    results = []
    for dtype in dtypes:
        model = Model(checkpoint, dtype, device)
        options = {"max_length": 30 if few else 120}
        with subject.rounds_on_host(model):
            plain = model.predict(queries, drafter="none", batch_size=1, **options)
        answers = {result.query: result for result in plain}
        for drafter, batch_size in _RUNS:
            shuffled = random.Random(batch_size).sample(queries, len(queries))
            found = model.predict(shuffled, drafter=drafter, batch_size=batch_size, **options)
            different = [result.query for result in found if result != answers[result.query]]
            results.append(
                {
                    "what": f"{dtype}, {drafter}, batch {batch_size}",
                    "different": different,
                    "ok": not different,
                    # Where rounds stay on the device its logarithm may draft another tree.
                    "calls": found.statistics.query_calls,
                    "nodes": found.statistics.nodes,
                    "accepted_tokens": found.statistics.accepted_tokens,
                }
            )
        beam_options = {"n_best": 5, "batch_size": 4, **options}
        with subject.rounds_on_host(model):
            standard = model.predict(queries[:12], beam="standard", **beam_options)
        apart = {"finished": "apart", "length_penalty": 1.0}
        with subject.rounds_on_host(model):
            standard_apart = model.predict(queries[:12], drafter="none", **apart, **beam_options)
            sbs = model.predict(queries[:12], beam="sbs", **beam_options)
        for what, more, expected in (
            ("standard beam", {"beam": "standard"}, standard),
            ("exact speculative beam", {"beam": "exact", "drafter": "tree"}, standard),
            ("beam, finished apart", {"drafter": "none", **apart}, standard_apart),
            ("exact beam, finished apart", {"drafter": "tree", **apart}, standard_apart),
            # Its nucleus is a sum of exponentials: the last bit of one may accept another draft.
            ("sbs", {"beam": "sbs"}, sbs),
        ):
            found = model.predict(queries[:12], **more, **beam_options)
            pairs = zip(found, expected, strict=True)
            different = [result.query for result, other in pairs if result != other]
            results.append(
                {
                    "what": f"{dtype}, {what} against the host's rounds",
                    "different": different,
                    "ok": not different,
                }
            )
    return {
        "ok": all(result["ok"] for result in results),
        "weights": weights,
        "queries": len(queries),
        "laws": results,
    }
