"""A process of one peer: reads requests as JSON lines, writes answers and times as JSON lines.

python bench/campaigns/peering/worker.py FOLDER PEER SETTING THREADS
"""

import json
import os
import re
import sys
from pathlib import Path
from time import perf_counter

sys.path[0] = str(Path(__file__).resolve().parents[1])

from peering.engines import ENGINES


def peak_bytes() -> int:
    """The peak memory of this process. getrusage would include its parent's."""
    status = Path("/proc/self/status").read_text()
    peak = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert peak is not None, "/proc/self/status has no VmHWM"
    return 1024 * int(peak[1])


def main() -> None:
    folder, name, setting, threads = sys.argv[1:]
    # Output of peers must not mix with the replies.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = ENGINES[name](Path(folder), setting, int(threads))
    for line in sys.stdin:
        request = json.loads(line)
        begin = perf_counter()
        answers = [peer.answer(batch, request["n_best"]) for batch in request["batches"]]
        seconds = perf_counter() - begin
        reply = {
            "seconds": seconds,
            "answers": [answer for batch in answers for answer in batch],
            "peak_bytes": peak_bytes(),
        }
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
