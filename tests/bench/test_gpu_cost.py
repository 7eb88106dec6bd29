"""Costs computed from machine code, on listings whose times are known."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench" / "gpu"))

import cost
import sass

#: In a control field: the instruction uses no counter.
NONE = 7


def line(address: int, text: str, stall: int = 1, writes: int = NONE, waits: int = 0) -> str:
    control = stall << 41 | writes << 46 | NONE << 49 | waits << 52
    return (
        f"        /*{address:04x}*/    {text} ;    /* {0:#018x} */\n"
        f"                                         /* {control:#018x} */\n"
    )


def listing(*lines: str) -> str:
    return "\t\tFunction : kernel\n" + "".join(lines)


def test_loads_issued_together_are_waited_for_once() -> None:
    together = listing(
        line(0x00, "LDG.E R0, desc[UR4][R2.64]", writes=0),
        line(0x10, "LDG.E R1, desc[UR4][R2.64+0x4]", writes=0),
        line(0x20, "FADD R0, R0, R1", stall=4, waits=0b1),
        line(0x30, "EXIT"),
    )
    path = sass.walk(sass.parsed(together)["kernel"], [])
    assert (path.cycles, path.loads, path.trips, path.most_in_flight) == (1 + 270 + 4 + 1, 2, 1, 2)
    separate = listing(
        line(0x00, "LDG.E R0, desc[UR4][R2.64]", writes=0),
        line(0x10, "IADD3 R2, R0, R2, RZ", stall=4, waits=0b1),
        line(0x20, "LDG.E R1, desc[UR4][R2.64]", writes=0),
        line(0x30, "FADD R0, R0, R1", stall=4, waits=0b1),
        line(0x40, "EXIT"),
    )
    path = sass.walk(sass.parsed(separate)["kernel"], [])
    assert (path.cycles, path.trips, path.most_in_flight) == (2 * (270 + 4) + 1, 2, 1)


@pytest.mark.parametrize(("turns", "instructions"), [(1, 6), (3, 10), (0, 3)])
def test_loop_runs_the_given_number_of_turns(turns: int, instructions: int) -> None:
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
    path = sass.walk(kernel, [turns])
    assert (path.instructions, path.barriers) == (instructions, turns)


def test_walk_branches_around_calls() -> None:
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


def test_code_is_traced_to_its_lines_and_their_inlining() -> None:
    listing = """
.text.kernel:
        //## File "a.cuh", line 3 inlined at "b.cuh", line 9
        //## File "b.cuh", line 9
        /*0000*/                   MOV R1, R2 ;
        /*0010*/                   NOP ;
        //## File "b.cuh", line 10
        /*0020*/                   EXIT ;
"""
    inlined = (("a.cuh", 3), ("b.cuh", 9))
    expected = {0x00: inlined, 0x10: inlined, 0x20: (("b.cuh", 10),)}
    assert sass.traced(listing) == {"kernel": expected}


def test_turns_are_found_by_the_line_that_ends_a_loop(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cuh"
    source.write_text("for (;;) {\n  while (x) --x;\n}\n")
    kernel = sass.parsed(
        listing(
            line(0x00, "NOP"),
            line(0x10, "@P0 BRA 0x0"),
            line(0x20, "@P1 BRA 0x0"),
            line(0x30, "EXIT"),
        )
    )["kernel"]
    lines = {0x10: ((str(source), 2),), 0x20: ((str(source), 1),)}
    launch = cost.Launch("it", "kernel", 1, 1, 1, {"while (x": [3], "for (;;": [2]})
    assert cost.turns_of(launch, kernel, lines) == [3, 2]
    unknown = cost.Launch("it", "kernel", 1, 1, 1, {"for (;;": [2]})
    with pytest.raises(ValueError, match=r"kernel has a loop that ends in `while \(x\) --x;`"):
        cost.turns_of(unknown, kernel, lines)


def test_library_without_the_kernel_is_reported() -> None:
    launch = cost.Launch("norm", "norm_kernel", 1, 1, 4, ())
    with pytest.raises(LookupError, match=r"no norm_kernel among 0 kernels: expected .* sm_90a"):
        cost.microseconds(launch, cost.Code({}, {}))
