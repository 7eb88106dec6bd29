"""Processor time of drafters in turns, by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from time import process_time
from unittest.mock import patch

from molspec.drafting import NoDraft
from molspec.drafting.options import AnyDrafter
from own.drafters import Workload

#: Standard beams without drafts, the baseline of the published speeds.
BEAMS = "beams of 5"


@dataclass(frozen=True)
class StageTimes:
    """Milliseconds of processor time a query, in the median round."""

    drafting: float
    verifying: float
    all: float

    @classmethod
    def median(cls, rounds: list[StageTimes]) -> StageTimes:
        """Each stage's own median."""
        names = ("drafting", "verifying", "all")
        return cls(*(median(getattr(taken, name) for taken in rounds) for name in names))


def times(
    workload: Workload, made: Mapping[str, AnyDrafter], batch: int, rounds: int
) -> dict[str, StageTimes]:
    """Times of each drafter and of BEAMS, one after the other in each round.

    Stages are measured in processor time, too, because other processes may run.
    """
    taken: dict[str, list[StageTimes]] = {name: [] for name in (*made, BEAMS)}
    with patch("molspec.decoding.statistics.perf_counter", process_time):
        for turn in range(rounds + 1):  # the first warms up
            for name in taken:
                found = _time_once(workload, made.get(name), batch)
                if turn:
                    taken[name].append(found)
    return {name: StageTimes.median(found) for name, found in taken.items()}


def _time_once(workload: Workload, drafter: AnyDrafter | None, batch: int) -> StageTimes:
    begin = process_time()
    if drafter is None:
        results = workload.answers(NoDraft(), batch, n_best=5, beam="standard")
    else:
        results = workload.answers(drafter, batch)
    seconds = {**results.statistics.seconds, "all": process_time() - begin}
    each = {stage: 1e3 * value / len(workload.queries) for stage, value in seconds.items()}
    return StageTimes(each["draft"], each["step"] + each["verify"], each["all"])
