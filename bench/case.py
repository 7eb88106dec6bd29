"""A microbenchmark: one operator at one size, beside its reference twin."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from timing import Call, Timing, measure

#: Few, because twins are slow.
_TWIN_ROUNDS = 3


@dataclass(frozen=True)
class Work:
    """What a call needs at least, and calls that read and compute as fast as one core can."""

    byte_count: int
    operations: int
    #: Bytes read or operations done by one call of the ceiling, and the call.
    read: tuple[int, Call]
    multiply: tuple[int, Call]


@dataclass(frozen=True)
class Case:
    """An operator at one size. `reference` is None if the operator has no twin."""

    operator: str
    size: str
    native: Call
    reference: Call | None = None
    work: Work | None = None


@dataclass(frozen=True)
class Rates:
    """Bytes and operations a second: those of a call, and the most that one core reached."""

    bytes_rate: float
    read_ceiling: float
    operations_rate: float
    multiply_ceiling: float


@dataclass(frozen=True)
class Measured:
    """Seconds a call, and its rates if the case has `work`."""

    operator: str
    size: str
    native: Timing
    reference: Timing | None = None
    #: The twin's time divided by the operator's in the same rounds.
    ratio: float | None = None
    rates: Rates | None = None


def run(case: Case, rounds: int) -> Measured:
    """Time a case; the ceilings are measured in the same rounds as the operator."""
    calls = {"native": case.native}
    if case.work is not None:
        calls |= {"read": case.work.read[1], "multiply": case.work.multiply[1]}
    timings = measure(calls, rounds)
    twin = ratio = rates = None
    if case.reference is not None:
        both = {"native": case.native, "reference": case.reference}
        compared = measure(both, min(rounds, _TWIN_ROUNDS))
        twin = compared["reference"]
        ratio = twin.seconds / compared["native"].seconds
    if case.work is not None:
        seconds = {name: timing.seconds for name, timing in timings.items()}
        rates = Rates(
            case.work.byte_count / seconds["native"],
            case.work.read[0] / seconds["read"],
            case.work.operations / seconds["native"],
            case.work.multiply[0] / seconds["multiply"],
        )
    return Measured(case.operator, case.size, timings["native"], twin, ratio, rates)


def table(measured: Iterable[Measured]) -> Iterator[str]:
    """Lines of text: microseconds, GB/s and GFLOP/s, with shares of their ceilings."""
    yield (
        f"{'operator':<20}{'size':<34}{'us':>10}{'best':>10}{'reference':>12}{'ratio':>8}"
        f"{'GB/s':>8}{'of':>6}{'GFLOP/s':>8}{'of':>6}"
    )
    for row in measured:
        line = f"{row.operator:<20}{row.size:<34}{row.native.seconds * 1e6:>10.1f}"
        line += f"{row.native.best * 1e6:>10.1f}"
        if row.reference is not None:
            line += f"{row.reference.seconds * 1e6:>12.1f}{row.ratio:>8.1f}"
        if row.rates is not None:
            line += _rate(row.rates.bytes_rate, row.rates.read_ceiling)
            line += _rate(row.rates.operations_rate, row.rates.multiply_ceiling)
        yield line


def _rate(rate: float, ceiling: float) -> str:
    return f"{rate / 1e9:>8.1f}{rate / ceiling:>6.0%}"
