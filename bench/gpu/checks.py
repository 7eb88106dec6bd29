"""Checks every kernel against its reference, and that rows do not depend on other rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from place import Place, Row
from tests import reference, tiny
from tests.engine.models import CONVENTIONS, random_weights, spec_of
from tests.engine.trees import Batch, random_batch
from torch import Tensor

from molspec import drafting
from molspec.engine.packing import pack

#: Options of searches whose rounds run on the host and read the device's results.
_HOST_ROUNDS: dict[str, dict[str, Any]] = {
    "heads": {"drafter": "heads"},
    "relaxed": {"verification": "relaxed"},
    "samples": {"samples": 3, "seed": 1},
    "samples without replacement": {"samples": 2, "seed": 1, "replacement": False},
}
#: Largest allowed difference of log-probs from the reference, which rounds the same inputs.
_TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 0.06, torch.float16: 0.01}


def on_device(batch: Batch, place: Place) -> Tensor:
    """Log-probs from the device's operators."""
    device, ops = place.tensors, place.ops
    packed = batch.packed
    moved = replace(
        batch,
        packed=replace(packed, weights=packed.weights.to(device)),
        **{
            name: getattr(batch, name).to(device)
            for name in ("source_ids", "source_offsets", "memories", "nodes", "path_slots")
        },
    )
    memory_cache, kv_cache = (cache.to(device) for cache in batch.caches())
    workspace = moved.workspace(ops).to(device)
    model = (moved.packed.weights, moved.packed.table)
    log_probs = torch.full((len(batch.nodes), packed.spec.target_vocab_size), torch.nan)
    log_probs = log_probs.to(device)
    sources = (moved.source_ids, moved.source_offsets, moved.memories, memory_cache, workspace)
    ops.encode(*model, *sources)
    nodes = (moved.nodes, moved.path_slots, moved.memories, memory_cache, kv_cache)
    no_hidden_states = torch.zeros(0, packed.spec.d_model, device=device)
    ops.decoder_step(*model, *nodes, workspace, log_probs, no_hidden_states)
    if place.has_rounds:
        ops.refuse_fault(workspace)
    return log_probs.cpu()


def _batch(convention: str, dtype: torch.dtype, node_count: int) -> Batch:
    spec = spec_of(convention)
    packed = pack(spec, random_weights(spec), dtype)
    return random_batch(packed, [5, 17, 33, 96], node_count, seed=node_count)


def _engine(convention: str, dtype: torch.dtype, place: Place, node_count: int) -> Row:
    batch = _batch(convention, dtype, node_count)
    together = on_device(batch, place)
    error = float((together - batch.run(reference)).abs().max())
    rows = range(0, node_count, max(1, node_count // 8))
    alone = all(torch.equal(on_device(batch.alone(row), place)[-1], together[row]) for row in rows)
    return {
        "what": f"engine, {convention}, {dtype}, {node_count} nodes",
        "largest_difference": error,
        "rows_are_their_own": alone,
        "ok": alone and error <= _TOLERANCES[dtype],
    }


def _dense(place: Place) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int, high: int = 50) -> Tensor:
        return torch.randint(0, high, shape, generator=generator)

    lengths = draw(700, high=90)
    drafts = draw(33, 23, 17)
    predicted = torch.where(draw(900, 40, high=12) == 0, 1, 2)
    ranks = torch.arange(250).expand(32, 250)
    cases: dict[str, tuple[Any, ...]] = {
        "left_pad": (draw(int(lengths.sum())), lengths, 7),
        "expand_drafts": (draw(80, 60), draw(80), draw(80, high=33), drafts),
        "acceptance_length": (torch.full((900, 40), 2), draw(900, high=41), predicted),
        "select_hypotheses": (
            draw(32, 250, high=9).double(),
            (ranks // 10).contiguous(),
            (ranks % 10).contiguous(),
            draw(32, high=251),
            10,
        ),
    }
    for name, arguments in cases.items():
        moved = [a.to(place.tensors) if isinstance(a, Tensor) else a for a in arguments]
        actual = getattr(place.ops, name)(*moved)
        expected = getattr(reference, name)(*arguments)
        pairs = zip(_tuple(actual), _tuple(expected), strict=True)
        yield {"what": name, "ok": all(torch.equal(a.cpu(), b) for a, b in pairs)}
    if place.has_rounds:
        log_probs = -draw(300, 257, high=40).float()
        yield {"what": "rank_tokens", "ok": _ranks_tokens(log_probs, place)}


def _ranks_tokens(log_probs: Tensor, place: Place) -> bool:
    nodes = torch.zeros(len(log_probs), 4, dtype=torch.int32)
    nodes[:, 2] = torch.arange(len(nodes))  # path_begin, of a path of one slot
    path_slots = torch.arange(len(nodes), dtype=torch.int32)
    expected = torch.zeros(len(nodes), 26, dtype=torch.int32), torch.zeros(len(nodes), 26)
    found = [tensor.to(place.tensors) for tensor in expected]
    reference.rank_tokens(nodes, path_slots, log_probs, *expected)
    place.ops.rank_tokens(
        *(item.to(place.tensors) for item in (nodes, path_slots, log_probs)), *found
    )
    return all(torch.equal(a.cpu(), b) for a, b in zip(found, expected, strict=True))


def _tuple(value: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def run(place: Place) -> Iterator[Row]:
    """Check all operators, conventions and types of weights."""
    dtypes = [torch.float32, torch.bfloat16]
    if place.has_rounds:
        dtypes.append(torch.float16)
    yield from _dense(place)
    yield from _searches(place)
    for convention in list(CONVENTIONS)[: 2 if place.few else None]:
        for dtype in dtypes:
            for node_count in (30,) if place.few else (30, 150):
                yield _engine(convention, dtype, place, node_count)


def _searches(place: Place) -> Iterator[Row]:
    """Check that searches with rounds on the host give the same bits alone and in a batch."""
    for name, options in _HOST_ROUNDS.items():
        model = place.model(tiny.with_heads() if name == "heads" else tiny.checkpoint(), "float32")
        together = model.predict(tiny.QUERIES[:3], max_length=20, **options)
        alone = [model.predict([query], max_length=20, **options) for query in tiny.QUERIES[:3]]
        pairs = zip(together, alone, strict=True)
        same = all(a.predictions == b.predictions and not a.error for a, (b,) in pairs)
        yield {"what": f"{name}, alone and in a batch", "ok": same}


def small(place: Place) -> Iterator[Row]:
    """One call of every kernel, for compute-sanitizer."""
    yield from _dense(place)
    for dtype in (torch.float32, torch.bfloat16):
        log_probs = on_device(_batch("pre-norm", dtype, 20), place)
        yield {"what": f"{dtype}", "ok": bool(log_probs.isfinite().all())}
    if not place.few:  # wide linears
        packed = pack(spec_of("whole panels"), random_weights(spec_of("whole panels")), dtype)
        batch = random_batch(packed, [33, 40], 2500, seed=1)
        yield {"what": "2500 nodes", "ok": bool(on_device(batch, place).isfinite().all())}
    sources = [tiny.VOCABULARY.encode(query) for query in tiny.QUERIES]
    pairs = list(zip(sources, sources, strict=True))
    ngram = drafting.build_ngram(tiny.VOCABULARY, pairs, min_gain=0.0, rewrites=True)
    model = place.model(replace(tiny.with_heads(), ngram=ngram), "float32")
    searches: list[dict[str, Any]] = [
        {},
        {"drafter": "windows"},
        {"beam": "standard", "n_best": 3},
        {"drafter": "tree", "n_best": 3},
        {"drafter": "tree", "n_best": 2, "finished": "separate"},
        {"beam": "sbs", "n_best": 2},
        *_HOST_ROUNDS.values(),
    ]
    for options in searches:
        rounds = model.predict(tiny.QUERIES[:3], batch_size=2, max_length=5, **options)
        yield {"what": f"rounds, {options}", "ok": not any(r.error for r in rounds)}
