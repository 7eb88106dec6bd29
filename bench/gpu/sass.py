"""The time of a warp through a kernel's machine code, by the waits that the compiler encoded.

Since Volta, every instruction encodes the cycles until the next one may issue, which of six
counters it holds until its result is ready, and which counters it waits for. With the latencies of
memory and units, this gives the time of one undisturbed warp for a path through the code.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

#: Cycles until a result is ready, by the first entry that begins the instruction's name.
#: Loads come from an H200's L2 (270 cycles; measurements of an H100 are 200 to 280).
LATENCIES = {
    "LDG": 270,
    "LD.": 40,  # a generic address: here always in shared memory
    "ATOMG": 400,
    "ATOM.": 400,
    "RED": 20,
    "ATOMS": 60,
    "LDS": 30,
    "LDL": 35,
    "LDC": 40,
    "SHFL": 24,
    "MUFU": 22,
    "S2R": 25,
    "S2UR": 25,
    "R2UR": 15,
    "BAR": 30,
    "MEMBAR": 500,
    "POPC": 18,
    "FLO": 18,
    "BREV": 18,
    "I2F": 22,
    "F2I": 22,
    "F2F": 22,
    "HMMA": 33,
    "D": 20,
}
#: Cycles of other instructions with a counter; and until an instruction has read its registers.
_OTHER, _READ = 20, 12
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s+/\* (0x[0-9a-f]{16}) \*/")
_CONTROL = re.compile(r"\s+/\* (0x[0-9a-f]{16}) \*/\s*$")
_CODE_OF = re.compile(r"\.text\.(\S+):")
_LINE = re.compile(r'//## File "(.+?)", line (\d+)')
_ADDRESS = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s")
_TARGET = re.compile(r"\b0x([0-9a-f]+)\s*$")


@dataclass(frozen=True)
class Instruction:
    """One line of machine code with its control bits."""

    address: int
    predicate: str
    name: str
    text: str
    stall: int
    write_counter: int  # 7: none
    read_counter: int
    waits: int  # a bit a counter

    @property
    def target(self) -> int | None:
        """The address that a branch goes to."""
        found = _TARGET.search(self.text)
        is_branch = self.name == "BRA" or self.name.startswith("CALL")
        return int(found[1], 16) if found and is_branch else None

    @property
    def latency(self) -> int:
        """Cycles until the result is ready."""
        fits = (cycles for name, cycles in LATENCIES.items() if self.name.startswith(name))
        return next(fits, _OTHER)


Kernel = list[Instruction]


def kernels(library: Path, architecture: str = "sm_90a") -> dict[str, Kernel]:
    """The kernels of an object for one architecture, by mangled name.

    Raises FileNotFoundError without cuobjdump, or nvdisasm, which it needs.
    """
    return parsed(_output("cuobjdump", "-sass", "-arch", architecture, str(library)))


def _output(*command: str, folder: Path | None = None) -> str:
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if run.returncode:
        raise FileNotFoundError(f"{' '.join(command)}: {run.stderr.strip()}")
    return run.stdout


#: A kernel's source lines by address of the code: (file, number), the innermost first.
Lines = dict[int, tuple[tuple[str, int], ...]]


def lines(library: Path, architecture: str = "sm_90a") -> dict[str, Lines]:
    """The source lines of kernels; none if they were not compiled with -lineinfo."""
    found: dict[str, Lines] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = ("cuobjdump", "-xelf", "all", "-arch", architecture)
        _output(*command, str(library.resolve()), folder=folder)
        for file in folder.iterdir():
            found |= traced(_output("nvdisasm", "-gi", str(file)))
    return found


def traced(listing: str) -> dict[str, Lines]:
    """The source lines in a listing of nvdisasm."""
    found: dict[str, Lines] = {}
    kernel: Lines = {}
    chain: list[tuple[str, int]] = []
    ended = True
    for line in listing.splitlines():
        if code := _CODE_OF.match(line):
            kernel = found[code[1]] = {}
            chain = []
        elif source := _LINE.search(line):
            chain = [] if ended else chain
            chain.append((source[1], int(source[2])))
            ended = False
        elif address := _ADDRESS.match(line):
            ended = True
            if chain:
                kernel[int(address[1], 16)] = tuple(chain)
    return found


def parsed(listing: str) -> dict[str, Kernel]:
    """The kernels in a listing of cuobjdump."""
    found: dict[str, Kernel] = {}
    kernel: Kernel = []
    waiting: re.Match[str] | None = None
    for line in listing.splitlines():
        if "Function :" in line:
            kernel = found[line.split(":", 1)[1].strip()] = []
        elif waiting and (control := _CONTROL.match(line)):
            kernel.append(_instruction(waiting, int(control[1], 16)))
            waiting = None
        else:
            waiting = _INSTRUCTION.match(line)
    return found


def _instruction(line: re.Match[str], control: int) -> Instruction:
    predicate, text = "", line[2]
    if text.startswith("@"):
        predicate, text = text.split(maxsplit=1)
    return Instruction(
        address=int(line[1], 16),
        predicate=predicate,
        name=text.split()[0],
        text=text,
        stall=control >> 41 & 0xF,
        write_counter=control >> 46 & 7,
        read_counter=control >> 49 & 7,
        waits=control >> 52 & 0x3F,
    )


@dataclass(frozen=True)
class Passage:
    """The costs of a warp's path through a kernel."""

    cycles: float
    instructions: int
    loads: int  # from global memory
    trips: int  # waits for global memory of at least half its latency
    barriers: int  # of the block
    most_in_flight: int  # loads in flight when the warp waits for the first of them


def loops(kernel: Kernel) -> list[Instruction]:
    """Backward branches before the last EXIT, in the order of addresses."""
    end = next(i.address for i in reversed(kernel) if i.name == "EXIT")
    return [i for i in kernel if i.target is not None and i.target < i.address <= end]


def walk(kernel: Kernel, turns: Sequence[int], taken: Sequence[int] = ()) -> Passage:
    """A warp's passage, if loop i of `loops` runs turns[i] times whenever it is reached.

    Forward branches are not taken, except those at addresses in `taken`, those around loops that
    run zero times, and those around calls, which are for numbers that do not occur.
    """
    at = {instruction.address: index for index, instruction in enumerate(kernel)}
    again = {branch.address: count for branch, count in zip(loops(kernel), turns, strict=True)}
    left = dict(again)
    passed = {*taken, *around(kernel, {a for a, turns in again.items() if turns == 0})}
    due = [0.0] * 6  # the cycle when each counter is free
    memory: dict[int, float] = {}  # the same for counters that hold loads from global memory
    clock, index = 0.0, 0
    count = loads = trips = barriers = flying = most = 0
    while index < len(kernel):
        instruction = kernel[index]
        waited = [c for c in range(6) if instruction.waits >> c & 1]
        until = max([clock, *(due[c] for c in waited)])
        trips += any(memory.get(c, 0.0) > clock + LATENCIES["LDG"] / 2 for c in waited)
        if any(c in memory for c in waited):
            most, flying = max(most, flying), 0
        for c in waited:
            memory.pop(c, None)
        clock = until
        if instruction.write_counter < 6:
            counter = instruction.write_counter
            due[counter] = max(due[counter], clock + instruction.latency)
            if instruction.latency >= LATENCIES["LDG"]:
                memory[counter] = due[counter]
        if instruction.read_counter < 6:
            due[instruction.read_counter] = max(due[instruction.read_counter], clock + _READ)
        is_load = instruction.name.startswith("LDG")
        loads, flying = loads + is_load, flying + is_load
        barriers += instruction.name.startswith("BAR")
        count += 1
        clock += max(1, instruction.stall)
        if instruction.name == "EXIT" and not instruction.predicate:
            break
        index = _next(kernel, index, at, left, again, passed)
    return Passage(clock, count, loads, trips, barriers, max(most, flying))


def around(kernel: Kernel, addresses: Set[int]) -> set[int]:
    """The nearest forward branch over each of these addresses; if taken, it skips them."""
    branches = [i for i in kernel if i.predicate and i.target and i.target > i.address]
    found = set()
    for address in addresses:
        over = [i.address for i in branches if i.address < address < (i.target or 0)]
        found.update(over[-1:])
    return found


def _next(
    kernel: Kernel,
    index: int,
    at: dict[int, int],
    left: dict[int, int],
    again: dict[int, int],
    taken: Set[int],
) -> int:
    branch = kernel[index]
    if branch.target is None or branch.name != "BRA":
        return index + 1
    if branch.address in again:
        left[branch.address] -= 1
        if left[branch.address] > 0:
            return at[branch.target]
        left[branch.address] = again[branch.address]
        return index + 1
    if branch.target <= branch.address:  # after the end
        return len(kernel)
    skipped = kernel[index + 1 : at[branch.target]]
    calls = any(i.name.startswith("CALL") for i in skipped[:12])
    conditional = bool(branch.predicate) or "P" in branch.text.split(",")[0].split()[-1]
    is_taken = not conditional or calls or branch.address in taken
    return at[branch.target] if is_taken else index + 1
