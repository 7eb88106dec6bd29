"""Every kernel against its reference, and rows that must not depend on other rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from tests import tiny
from tests.engine.models import CONVENTIONS, random_weights, spec_of
from tests.engine.trees import Batch, random_batch
from torch import Tensor

from molspec import drafting, ops, reference
from molspec.engine.packing import PackedModel, pack
from molspec.predictor import Model

#: Largest difference of log-probs from the reference that rounds the same inputs.
_TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 0.06, torch.float16: 0.01}


def on_device(batch: Batch, device: str) -> Tensor:
    """Log-probs by the device's operators."""
    packed = batch.packed
    moved = replace(
        batch,
        packed=PackedModel(packed.weights.to(device), packed.table, packed.spec),
        **{
            name: getattr(batch, name).to(device)
            for name in ("source_ids", "source_offsets", "memories", "nodes", "path_slots")
        },
    )
    memory_cache, kv_cache = (cache.to(device) for cache in batch.caches())
    workspace = moved.workspace().to(device)
    model = (moved.packed.weights, moved.packed.table)
    log_probs = torch.full((len(batch.nodes), packed.spec.target_vocab_size), torch.nan)
    log_probs = log_probs.to(device)
    sources = (moved.source_ids, moved.source_offsets, moved.memories, memory_cache, workspace)
    ops.encode(*model, *sources)
    nodes = (moved.nodes, moved.path_slots, moved.memories, memory_cache, kv_cache)
    ops.decoder_step(*model, *nodes, workspace, log_probs)
    if device != "cpu":
        ops.refuse_fault(workspace)
    return log_probs.cpu()


def _batch(convention: str, dtype: torch.dtype, node_count: int) -> Batch:
    spec = spec_of(convention)
    packed = pack(spec, random_weights(spec), dtype)
    return random_batch(packed, [5, 17, 33, 96], node_count, seed=node_count)


def _engine(convention: str, dtype: torch.dtype, device: str, node_count: int) -> dict[str, Any]:
    batch = _batch(convention, dtype, node_count)
    together = on_device(batch, device)
    error = float((together - batch.run(reference)).abs().max())
    rows = range(0, node_count, max(1, node_count // 8))
    alone = all(torch.equal(on_device(batch.alone(row), device)[-1], together[row]) for row in rows)
    return {
        "what": f"engine, {convention}, {dtype}, {node_count} nodes",
        "largest_difference": error,
        "rows_are_their_own": alone,
        "ok": alone and error <= _TOLERANCES[dtype],
    }


def _dense(device: str) -> list[dict[str, Any]]:
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
    results = []
    for name, arguments in cases.items():
        moved = [a.to(device) if isinstance(a, Tensor) else a for a in arguments]
        actual = getattr(ops, name)(*moved)
        expected = getattr(reference, name)(*arguments)
        pairs = zip(_tuple(actual), _tuple(expected), strict=True)
        results.append({"what": name, "ok": all(torch.equal(a.cpu(), b) for a, b in pairs)})
    if device != "cpu":  # which has no rounds
        log_probs = -draw(300, 257, high=40).float()
        results.append({"what": "rank_tokens", "ok": _ranks_tokens(log_probs, device)})
    return results


def _ranks_tokens(log_probs: Tensor, device: str) -> bool:
    nodes = torch.zeros(len(log_probs), 4, dtype=torch.int32)
    nodes[:, 2] = torch.arange(len(nodes))  # path_begin, of a path of one slot
    path_slots = torch.arange(len(nodes), dtype=torch.int32)
    expected = torch.zeros(len(nodes), 26, dtype=torch.int32), torch.zeros(len(nodes), 26)
    found = [tensor.to(device) for tensor in expected]
    reference.rank_tokens(nodes, path_slots, log_probs, *expected)
    ops.rank_tokens(*(item.to(device) for item in (nodes, path_slots, log_probs)), *found)
    return all(torch.equal(a.cpu(), b) for a, b in zip(found, expected, strict=True))


def _tuple(value: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def run(device: str, few: bool) -> dict[str, Any]:
    """All operators, conventions and types of weights."""
    dtypes = [torch.float32, torch.bfloat16] + ([] if device == "cpu" else [torch.float16])
    results = _dense(device)
    for convention in list(CONVENTIONS)[: 2 if few else None]:
        for dtype in dtypes:
            for node_count in (30,) if few else (30, 150):
                results.append(_engine(convention, dtype, device, node_count))
    return {"ok": all(result["ok"] for result in results), "checks": results}


def small(device: str, few: bool) -> dict[str, Any]:
    """One call of every kernel, for compute-sanitizer."""
    results = _dense(device)
    for dtype in (torch.float32, torch.bfloat16):
        for node_count in (20, 60):  # narrow and wide linears
            log_probs = on_device(_batch("pre-norm", dtype, node_count), device)
            results.append({"what": f"{dtype}", "ok": bool(log_probs.isfinite().all())})
    sources = [tiny.VOCABULARY.encode(query) for query in tiny.QUERIES]
    pairs = list(zip(sources, sources, strict=True))
    ngram = drafting.build_ngram(tiny.VOCABULARY, pairs, min_gain=0.0, rewrites=True)
    model = Model(replace(tiny.checkpoint(), ngram=ngram), "float32", device)
    for options in (
        {},
        {"drafter": "windows"},
        {"beam": "standard", "n_best": 3},
        {"drafter": "tree", "n_best": 3},
        {"drafter": "tree", "n_best": 2, "finished": "apart"},
        {"beam": "sbs", "n_best": 2},
    ):
        rounds = model.predict(tiny.QUERIES[:3], batch_size=2, max_length=5, **options)
        results.append({"what": f"rounds, {options}", "ok": not any(r.error for r in rounds)})
    return {"ok": all(result["ok"] for result in results), "checks": results}
