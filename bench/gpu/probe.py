"""The first thing to know of a device: whether a captured step gives the bits of a launched one."""

from collections.abc import Iterator

import numpy as np
import subject
import torch
from compare import compared
from place import Place, Row
from tests import tiny
from tests.engine.models import CONVENTIONS, random_weights, spec_of

from molspec.checkpoints import Checkpoint
from molspec.engine.session import Session


def run(place: Place) -> Iterator[Row]:
    """A source and a step with launches, at its capture, and replayed."""
    checkpoint, weights = subject.checkpoint("product", place.few)
    query = checkpoint.vocabulary.encode(subject.queries("product", place.few, 1)[0])
    yield from _conventions(place)
    exact: torch.Tensor | None = None
    for dtype in ("float32", "bfloat16"):
        launched = _log_probs(place.model(checkpoint, dtype, eager=True).engine.session(1), query)
        session = place.model(checkpoint, dtype).engine.session(1)
        captured, replayed = (_log_probs(session, query) for _ in range(2))
        yield compared(f"captured, {dtype}", captured, launched)
        yield compared(f"replayed, {dtype}", replayed, launched)
        exact = launched if exact is None else exact
        yield {
            "what": f"log-probs of {weights} weights, {dtype}",
            "largest_difference_from_float32": float((launched - exact).abs().max()),
            "ok": bool(launched.isfinite().all()),
        }


def _conventions(place: Place) -> Iterator[Row]:
    """The same of tiny models: which kernels are launched depends on the convention."""
    for convention in list(CONVENTIONS)[::1]:
        spec = spec_of(convention)
        if spec.source_vocab_size != tiny.VOCABULARY.size:
            continue
        checkpoint = Checkpoint(spec, random_weights(spec), tiny.VOCABULARY)
        launched, session = (
            place.model(checkpoint, "bfloat16", eager).engine.session(1) for eager in (True, False)
        )
        expected = _log_probs(launched, [4, 5, 6, 7])
        for what in ("captured", "replayed"):
            yield compared(f"{what}, {convention}", _log_probs(session, [4, 5, 6, 7]), expected)


def _log_probs(session: Session, source: list[int]) -> torch.Tensor:
    """Log-probs of a path of three nodes, after the source was encoded."""
    session.encode([0], [source])
    nodes = np.array([[4 + i, i, i * (i + 1) // 2, 0] for i in range(3)], dtype=np.int32)
    slots = np.array([0, 0, 1, 0, 1, 2], dtype=np.int32)
    log_probs = torch.from_numpy(session.step(nodes, slots, 1)[:3].copy())
    session.release(0)
    return log_probs
