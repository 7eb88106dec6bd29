"""Savings and costs of relaxed verification, by its bounds and by its judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from molspec.drafting import SpecDraft
from molspec.text import canonicalise
from own import published
from own.drafters import TOGETHER, Workload, rows

_BETAS, _TAUS = (3, 5), (1, 2, 3, 4, 5, 6)
_JUDGES = ("model", "drafter")
_HEAD = (
    *("verification", "judge", "tokens an iteration", "theirs", "calls a query"),
    *("tolerated tokens", "top-1"),
)


def table(workload: Workload, targets: Sequence[str], nodes: int) -> Iterator[str]:
    """Calls and top-1 of the Spec-Drafter alone; published figures are for the model as judge."""
    canonical = [canonicalise(target) for target in targets]
    cells = [
        _HEAD,
        ["strict", "", *_row(workload, canonical, nodes, str(published.STRICT), {})],
    ]
    for judge in _JUDGES:
        for beta in _BETAS:
            for tau in _TAUS:
                theirs = published.RELAXED[beta].get(tau, "") if judge == "model" else ""
                options = {"verification": "relaxed", "beta": beta, "tau": tau, "judge": judge}
                row = _row(workload, canonical, nodes, str(theirs), options)
                cells.append([f"beta {beta}, tau {tau}", judge, *row])
    return rows(cells)


def _row(
    workload: Workload,
    canonical: Sequence[str | None],
    nodes: int,
    theirs: str,
    options: dict[str, Any],
) -> list[str]:
    results = workload.answers(SpecDraft(nodes), TOGETHER, **options)
    sums, tolerated, correct = results.statistics, 0, 0
    for result, target in zip(results, canonical, strict=True):
        for answer in result.predictions:
            tolerated += answer.tolerated or 0
            correct += answer.canonical is not None and answer.canonical == target
    return [
        f"{sums.emitted_tokens / sums.query_calls:.2f}",
        theirs,
        f"{sums.query_calls / sums.queries:.2f}",
        f"{tolerated / sums.emitted_tokens:.1%}",
        f"{correct / len(canonical):.1%}",
    ]
