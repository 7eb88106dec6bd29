"""Processor time of drafters in turns, by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from time import process_time
from unittest.mock import patch

from molspec.drafting import NoDraft
from molspec.drafting.configurations import AnyDrafter
from own.drafters import Workload

#: Standard beams without drafts, which the published speeds are against.
BEAMS = "beams of 5"


@dataclass(frozen=True)
class Taken:
    """Milliseconds a query of the processor, in the median round."""

    drafting: float
    verifying: float
    all: float

    @classmethod
    def median(cls, rounds: list[Taken]) -> Taken:
        """Each stage's own median."""
        names = ("drafting", "verifying", "all")
        return cls(*(median(getattr(taken, name) for taken in rounds) for name in names))


def times(
    workload: Workload, made: Mapping[str, AnyDrafter], batch: int, rounds: int
) -> dict[str, Taken]:
    """What each drafter takes, and BEAMS, one after the other in each round.

    Stages are charged with the processor's time, too: others may use the machine.
    """
    taken: dict[str, list[Taken]] = {name: [] for name in (*made, BEAMS)}
    with patch("molspec.decoding.statistics.perf_counter", process_time):
        for turn in range(rounds + 1):  # the first warms up
            for name in taken:
                found = _taken(workload, made.get(name), batch)
                if turn:
                    taken[name].append(found)
    return {name: Taken.median(found) for name, found in taken.items()}


def _taken(workload: Workload, drafter: AnyDrafter | None, batch: int) -> Taken:
    begin = process_time()
    if drafter is None:
        results = workload.answers(NoDraft(), batch, n_best=5, beam="standard")
    else:
        results = workload.answers(drafter, batch)
    seconds = {**results.statistics.seconds, "all": process_time() - begin}
    each = {stage: 1e3 * value / len(workload.queries) for stage, value in seconds.items()}
    return Taken(each["draft"], each["step"] + each["verify"], each["all"])
