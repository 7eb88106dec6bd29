"""Compares Spec-Drafters of one model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from molspec import Model
from molspec.checkpoints import Checkpoint
from molspec.drafting import NoDraft, SpecDraft
from own.drafters import Counts, Workload, rows
from own.times import times

_HEAD = (
    *("drafter", "encoder + decoder layers", "width", "MB, float32", "tokens an iteration"),
    *("calls a query", "tree+spec", "drafting ms", "speed-up over greedy"),
)


def table(
    checkpoints: Mapping[str, Checkpoint],
    queries: Sequence[str],
    nodes: int,
    timed: int,
    rounds: int,
) -> Iterator[str]:
    """A row for each: its size, calls without and with the tree, and times at batch 1."""
    cells: list[Sequence[str]] = [_HEAD]
    for name, checkpoint in checkpoints.items():
        workload = Workload(Model(checkpoint), queries)
        weights = checkpoint.spec_drafter
        if weights is None:
            continue
        alone, merged = SpecDraft(nodes), SpecDraft(nodes, tree=True)
        counts = Counts.of(workload, alone)
        taken = times(workload.first(timed), {"none": NoDraft(), "spec": alone}, 1, rounds)
        cells.append(
            [
                name,
                f"{weights.spec.encoder_layers} + {weights.spec.decoder_layers}",
                f"{weights.spec.d_model}",
                f"{4 * sum(map(Tensor.numel, weights.weights.values())) / 1e6:.1f}",
                f"{counts.tokens_an_iteration:.2f}",
                f"{counts.mean('decoder_calls'):.2f}",
                f"{Counts.of(workload, merged).mean('decoder_calls'):.2f}",
                f"{taken['spec'].drafting:.1f}",
                f"{taken['none'].all / taken['spec'].all:.2f}",
            ]
        )
    return rows(cells)
