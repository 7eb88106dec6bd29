"""What is counted from machine code, on a listing whose times are known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench" / "gpu"))

import sass

#: No counter; and what it waits for.
NONE = 7


def line(address: int, text: str, stall: int = 1, writes: int = NONE, waits: int = 0) -> str:
    control = stall << 41 | writes << 46 | NONE << 49 | waits << 52
    return (
        f"        /*{address:04x}*/    {text} ;    /* {0:#018x} */\n"
        f"                                         /* {control:#018x} */\n"
    )


def listing(*lines: str) -> str:
    return "\t\tFunction : kernel\n" + "".join(lines)


def test_loads_that_go_together_are_waited_for_once() -> None:
    together = listing(
        line(0x00, "LDG.E R0, desc[UR4][R2.64]", writes=0),
        line(0x10, "LDG.E R1, desc[UR4][R2.64+0x4]", writes=0),
        line(0x20, "FADD R0, R0, R1", stall=4, waits=0b1),
        line(0x30, "EXIT"),
    )
    way = sass.walk(sass.parsed(together)["kernel"], [])
    assert (way.cycles, way.loads, way.trips, way.most_in_flight) == (1 + 270 + 4 + 1, 2, 1, 2)
    apart = listing(
        line(0x00, "LDG.E R0, desc[UR4][R2.64]", writes=0),
        line(0x10, "IADD3 R2, R0, R2, RZ", stall=4, waits=0b1),
        line(0x20, "LDG.E R1, desc[UR4][R2.64]", writes=0),
        line(0x30, "FADD R0, R0, R1", stall=4, waits=0b1),
        line(0x40, "EXIT"),
    )
    way = sass.walk(sass.parsed(apart)["kernel"], [])
    assert (way.cycles, way.trips, way.most_in_flight) == (2 * (270 + 4) + 1, 2, 1)


@pytest.mark.parametrize(("turns", "instructions"), [(1, 6), (3, 10), (0, 3)])
def test_a_loop_runs_as_often_as_is_said(turns: int, instructions: int) -> None:
    kernel = sass.parsed(
        listing(
            line(0x00, "ISETP.GE.AND P0, PT, R0, R1, PT", stall=4),
            line(0x10, "@P0 BRA 0x50"),
            line(0x20, "BAR.SYNC.DEFER_BLOCKING 0x0"),
            line(0x30, "@P1 BRA 0x20"),
            line(0x40, "NOP"),
            line(0x50, "EXIT"),
            line(0x60, "BRA 0x60"),
        )
    )["kernel"]
    assert [branch.address for branch in sass.loops(kernel)] == [0x30]
    way = sass.walk(kernel, [turns])
    assert (way.instructions, way.barriers) == (instructions, turns)


def test_a_call_is_for_numbers_that_do_not_come() -> None:
    kernel = sass.parsed(
        listing(
            line(0x00, "@P0 BRA 0x20"),
            line(0x10, "CALL.REL.NOINC 0x40"),
            line(0x20, "@P1 EXIT"),
            line(0x30, "EXIT"),
            line(0x40, "NOP"),
        )
    )["kernel"]
    assert sass.walk(kernel, []).instructions == 3
