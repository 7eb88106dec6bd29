"""What a microbenchmark is: one operator at one size, beside its reference twin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from timing import Call, Timing, measure


@dataclass(frozen=True)
class Work:
    """What a call cannot do without, and calls that do as much of it as one core can."""

    byte_count: int
    operations: int
    #: What is read or computed by one call of the ceiling, and the call.
    read: tuple[int, Call]
    multiply: tuple[int, Call]


@dataclass(frozen=True)
class Case:
    """An operator at one size. `reference` is None where the operator has no twin."""

    operator: str
    size: str
    native: Call
    reference: Call | None = None
    work: Work | None = None


@dataclass(frozen=True)
class Measured:
    """Seconds a call, and with `work` the rates reached beside those one core can reach."""

    operator: str
    size: str
    native: Timing
    reference: Timing | None = None
    #: Bytes and operations a second, and their measured ceilings.
    bytes_rate: float | None = None
    read_ceiling: float | None = None
    operations_rate: float | None = None
    multiply_ceiling: float | None = None


def run(case: Case, rounds: int) -> Measured:
    """Time a case; the ceilings are measured in the same rounds as the operator."""
    calls = {"native": case.native}
    if case.work is not None:
        calls |= {"read": case.work.read[1], "multiply": case.work.multiply[1]}
    timings = measure(calls, rounds)
    twin = None
    if case.reference is not None:
        twin = measure({"reference": case.reference}, min(rounds, 3))["reference"]
    if case.work is None:
        return Measured(case.operator, case.size, timings["native"], twin)
    seconds = {name: timing.seconds for name, timing in timings.items()}
    return Measured(
        case.operator,
        case.size,
        timings["native"],
        twin,
        case.work.byte_count / seconds["native"],
        case.work.read[0] / seconds["read"],
        case.work.operations / seconds["native"],
        case.work.multiply[0] / seconds["multiply"],
    )


def table(measured: Iterable[Measured]) -> Iterable[str]:
    """Lines of text: microseconds, GB/s and GFLOP/s with the share of their ceilings."""
    yield (
        f"{'operator':<20}{'size':<34}{'us':>10}{'best':>10}{'reference':>12}{'ratio':>8}"
        f"{'GB/s':>8}{'of':>6}{'GFLOP/s':>9}{'of':>6}"
    )
    for row in measured:
        line = f"{row.operator:<20}{row.size:<34}{row.native.seconds * 1e6:>10.1f}"
        line += f"{row.native.best * 1e6:>10.1f}"
        if row.reference is not None:
            ratio = row.reference.seconds / row.native.seconds
            line += f"{row.reference.seconds * 1e6:>12.1f}{ratio:>8.1f}"
        if row.bytes_rate is not None:
            line += f"{row.bytes_rate / 1e9:>8.1f}{_share(row.bytes_rate, row.read_ceiling)}"
            line += f"{row.operations_rate / 1e9:>9.1f}"
            line += _share(row.operations_rate, row.multiply_ceiling)
        yield line


def _share(rate: float | None, ceiling: float | None) -> str:
    return f"{rate / ceiling:>6.0%}" if rate and ceiling else " " * 6
