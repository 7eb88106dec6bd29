"""Memory that drafters add: their weights, and the caches of their sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from molspec import Model
from molspec.drafting.options import AnyDrafter
from molspec.engine.cpu.engine import NativeEngine
from own import published
from own.drafters import Workload, rows


def table(
    workload: Workload, made: Mapping[str, AnyDrafter], batches: Sequence[int]
) -> Iterator[str]:
    """Megabytes in use by drafter and batch size; the published ones are below."""
    cells = [["drafter", "weights", *(f"batch {batch}" for batch in batches)]]
    for name, drafter in made.items():
        weights = weight_megabytes(workload.model, name)
        caches = [weights + cache_megabytes(workload, drafter, batch) for batch in batches]
        cells.append([name, f"{weights:.1f}", *(f"{each:.1f}" for each in caches)])
    for column, name in enumerate(("without, theirs", "with a Spec-Drafter, theirs")):
        in_use = (published.IN_USE.get(batch) for batch in batches)
        theirs = ("" if pair is None else str(pair[column]) for pair in in_use)
        cells.append([name, str(published.WEIGHTS[column]), *theirs])
    return rows(cells)


def weight_megabytes(model: Model, name: str) -> float:
    """Megabytes of float32 weights, of the model and its drafter."""
    found = 4 * model.parameter_count / 1e6
    if "spec" in name and (spec := model.context.spec_drafter) is not None:
        found += 4 * sum(weight.numel() for weight in spec._weights.weights.values()) / 1e6
    if "heads" in name and model.context.heads is not None:
        found += 4 * sum(weight.numel() for weight in model.context.heads.parameters()) / 1e6
    return found


def cache_megabytes(workload: Workload, drafter: AnyDrafter, batch: int) -> float:
    """Megabytes of the sessions' caches: keys, values, hidden states and workspace.

    They grow to the size that the largest batch needs, or at most twice that, and stay allocated.
    """
    spec = workload.model.context.spec_drafter
    engines: list[NativeEngine] = []
    for engine in (workload.model.engine, *([] if spec is None else [spec.engine])):
        assert isinstance(engine, NativeEngine)  # a device's caches are not counted
        engine.free_caches()
        engines.append(engine)
    list(workload.answers(drafter, batch))
    return sum(engine.kept_bytes for engine in engines) / 1e6
