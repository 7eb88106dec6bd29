"""Read `nvcc -Xptxas -v` from standard input; fail where a kernel spills or takes too much.

A block may use 48 KB of static shared memory and a thread 128 registers: four blocks of 128
threads, or two of 256, then fit a multiprocessor.
"""

import re
import sys

MOST_SHARED_BYTES = 48 * 1024
MOST_REGISTERS = 128

_KERNEL = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def faults(log: str) -> tuple[int, list[str]]:
    """Kernels in a log, and what is wrong with them."""
    count, kernel, found = 0, "", []
    for line in log.splitlines():
        if match := _KERNEL.search(line):
            count += 1
            kernel = f"{match[1]} for {match[2]}"
        elif match := _SPILL.search(line):
            if any(int(size) for size in match.groups()):
                found.append(f"{kernel}: {match[0]}")
        elif match := _REGISTERS.search(line):
            if int(match[1]) > MOST_REGISTERS:
                found.append(f"{kernel}: {match[1]} registers, expected at most {MOST_REGISTERS}")
            shared = _SHARED.search(line)
            if shared and int(shared[1]) > MOST_SHARED_BYTES:
                found.append(f"{kernel}: {shared[0]}, expected at most {MOST_SHARED_BYTES}")
    return count, found


def main() -> None:
    """Report, and end with status 1 where something is wrong or nothing was compiled."""
    count, found = faults(sys.stdin.read())
    print("\n".join(found) or f"{count} kernels: no spills, registers and shared memory in budget")
    sys.exit(1 if found or count == 0 else 0)


if __name__ == "__main__":
    main()
